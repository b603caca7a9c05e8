"""Opens what the resources of a file describe: SQS clients and database engines."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqs_workers.app.spec_resources import Mysql, Postgres, Sqlite, Sqs, SqsQueue, SqsSink
from sqs_workers.exceptions import ConfigurationError, QueueNotFoundError
from sqs_workers.transport import DeferredTransport, ErrorKind, classify, error_code, open_transport

if TYPE_CHECKING:
    from sqs_workers.app.spec import App
    from sqs_workers.sql.sqla import sa
    from sqs_workers.transport import Mode, Transport

__all__ = ["Connections", "database_url", "open_database", "open_sqs"]

logger = logging.getLogger(__name__)

_REST_SECONDS = 1.0
_SESSION_NAME = "sqs-workers"
_DRIVERS = {
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
}
_FAMILIES = {Mysql: "mysql", Postgres: "postgresql", Sqlite: "sqlite"}


class Connections:
    """The opened resources of an app, each opened once, when it is first asked for.

    :param directory: that of the file, to which paths in it are relative.
    :param max_connections: HTTP connections that an SQS client keeps.
    :param transport: instead of what the ``sqs`` resources say.
    """

    def __init__(
        self, app: App, directory: Path, *, max_connections: int = 50, transport: Mode | None = None
    ) -> None:
        self._app = app
        self._directory = directory
        self._max_connections = max_connections
        self._mode = transport
        self._sessions: dict[str, Any] = {}
        self._clients: dict[str, Any] = {}
        self._transports: dict[str, Transport] = {}
        self._engines: dict[str, sa.Engine] = {}

    def client(self, name: str) -> Any:
        """The SQS client of an ``sqs`` resource.

        :raises ConfigurationError: boto3 finds no region or no such profile.
        """
        if name not in self._clients:
            spec = self._app.resources[name]
            assert isinstance(spec, Sqs)
            self._sessions[name], self._clients[name] = _open(name, spec, self._max_connections)
        return self._clients[name]

    def transport(self, name: str) -> Transport:
        """The transport of an ``sqs`` resource."""
        if name not in self._transports:
            spec = self._app.resources[name]
            assert isinstance(spec, Sqs)
            client = self.client(name)
            self._transports[name] = open_transport(
                lambda: self._sessions[name], mode=self._mode or spec.transport, get_client=lambda: client
            )
        return self._transports[name]

    def choose_transport(self, name: str) -> None:
        """Say now whether the transport of an ``sqs`` resource can be what it shall be.

        :raises ConfigurationError: it shall be ``lean``, and the client has something that only boto3 honours.
        """
        transport = self.transport(name)
        if isinstance(transport, DeferredTransport):
            try:
                transport.open()
            except ConfigurationError as error:
                raise ConfigurationError(f"resource {name!r}: {error}") from None

    def queue_url(self, spec: SqsQueue | SqsSink) -> str:
        """URL of a queue, asked of SQS if the file gives its name.

        :raises QueueNotFoundError: there is no such queue, or these credentials may not see it.
        """
        if spec.url is not None:
            return spec.url
        name = spec.name or ""
        try:
            return self.transport(spec.connector).get_queue_url(name)
        except Exception as error:
            if classify(error) in (ErrorKind.MISSING, ErrorKind.DENIED):
                raise QueueNotFoundError(
                    f"queue {name!r} does not exist, or these credentials may not see it "
                    f"({error_code(error)})",
                    queue_name=name,
                ) from None
            raise

    def visibility_timeout(self, spec: SqsQueue) -> int | None:
        """Seconds that the queue hides a message for, or ``None`` if SQS does not say.

        :raises QueueNotFoundError: there is no such queue, or these credentials may not see it.
        """
        url = self.queue_url(spec)
        try:
            found = self.transport(spec.connector).get_queue_attributes(url, ["VisibilityTimeout"])
        except Exception as error:  # noqa: BLE001 - the worker asks again, and reports
            logger.debug("The visibility timeout cannot be read: %s", error_code(error))
            return None
        value = found.get("VisibilityTimeout")
        return None if value is None else int(value)

    def database(self, name: str) -> sa.Engine:
        """The engine of a database.

        :raises ConfigurationError: the DSN cannot be read. It is never shown.
        :raises MissingExtraError: SQLAlchemy or the driver is not installed.
        """
        if name not in self._engines:
            spec = self._app.resources[name]
            assert isinstance(spec, (Mysql, Postgres, Sqlite))
            self._engines[name] = open_database(name, spec, self._directory)
        return self._engines[name]

    def opened(self) -> Mapping[str, Any]:
        """What is open: clients and engines by name."""
        return {**self._clients, **self._engines}

    def close(self) -> None:
        """Close everything."""
        for transport in self._transports.values():
            if isinstance(transport, DeferredTransport):
                transport.close()
        for client in self._clients.values():
            client.close()
        for engine in self._engines.values():
            engine.dispose()


def open_sqs(name: str, spec: Sqs, max_connections: int = 50) -> Any:
    """A boto3 client of SQS; see :meth:`Connections.client`."""
    return _open(name, spec, max_connections)[1]


def _open(name: str, spec: Sqs, max_connections: int) -> tuple[Any, Any]:
    """A session and its client."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    config = Config(
        max_pool_connections=max_connections,
        connect_timeout=10,
        # A long poll answers after 20 seconds.
        read_timeout=40,
        retries={"mode": "standard", "total_max_attempts": 3},
        user_agent_extra="sqs-workers",
    )
    try:
        session = boto3.Session(profile_name=spec.profile_name, region_name=spec.region_name)
        if spec.role_arn is not None:
            session = _assume(session, spec)
        return session, session.client("sqs", endpoint_url=spec.endpoint_url, config=config)
    except (BotoCoreError, ValueError) as error:
        raise ConfigurationError(f"resource {name!r}: {error}") from None


def _assume(session: Any, spec: Sqs) -> Any:
    """A session with the credentials of a role, which botocore renews."""
    import boto3
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
    from botocore.session import Session

    extra = {"RoleSessionName": _SESSION_NAME}
    if spec.external_id is not None:
        extra["ExternalId"] = spec.external_id
    core = session._session
    fetcher = AssumeRoleCredentialFetcher(
        client_creator=core.create_client,
        source_credentials=session.get_credentials(),
        role_arn=spec.role_arn or "",
        extra_args=extra,
    )
    assumed = Session()
    assumed._credentials = DeferredRefreshableCredentials(  # type: ignore[attr-defined]
        method="assume-role", refresh_using=fetcher.fetch_credentials
    )
    return boto3.Session(botocore_session=assumed, region_name=session.region_name)


def open_database(name: str, spec: Mysql | Postgres | Sqlite, directory: Path) -> sa.Engine:
    """A SQLAlchemy engine; see :meth:`Connections.database`."""
    from sqs_workers.sql.sqla import sa

    url = database_url(name, spec, directory)
    options: dict[str, Any] = {"hide_parameters": True}
    if not isinstance(spec, Sqlite):
        options |= {
            "pool_size": spec.pool_size,
            "max_overflow": 0,
            "pool_recycle": spec.pool_recycle_s,
            # Every use ends its own transaction; a reset would be one more round trip for each commit.
            "pool_reset_on_return": None,
            "connect_args": {"connect_timeout": spec.connect_timeout_s},
        }
    else:
        options["connect_args"] = {"timeout": 30}
    try:
        engine = sa.create_engine(url, **options)
    except ModuleNotFoundError as error:
        extra = "postgres" if isinstance(spec, Postgres) else "mysql"
        raise ConfigurationError(
            f"resource {name!r} needs the driver {error.name!r}, which is not installed: "
            f"pip install 'sqs-workers[{extra}]'"
        ) from None
    if not isinstance(spec, Sqlite):
        _ping_after_rest(engine)
    return engine


def _ping_after_rest(engine: sa.Engine) -> None:
    """Ask a connection that has rested whether it still lives, and replace it if not.

    Without it, the first message after a restart of the server would fail; before each use it would be a
    round trip for nothing.
    """
    from sqs_workers.sql.sqla import sa

    def returned(connection: Any, record: Any) -> None:
        record.info["returned"] = time.monotonic()

    def taken(connection: Any, record: Any, proxy: Any) -> None:
        if time.monotonic() - record.info.get("returned", time.monotonic()) > _REST_SECONDS:
            try:
                alive = engine.dialect.do_ping(connection)
            except Exception:  # noqa: BLE001 - whatever the driver raises: it is of no use any more
                alive = False
            if not alive:
                raise sa.exc.DisconnectionError("the connection has ended")

    sa.event.listen(engine, "checkin", returned)
    sa.event.listen(engine, "checkout", taken)


def database_url(name: str, spec: Mysql | Postgres | Sqlite, directory: Path) -> Any:
    """The URL for SQLAlchemy, with driver and encoding.

    :raises ConfigurationError: the DSN cannot be read, or belongs to another database. It is never shown.
    """
    from sqs_workers.sql.sqla import sa

    family = _FAMILIES[type(spec)]
    try:
        url = sa.make_url(spec.dsn)
    except (sa.exc.ArgumentError, ValueError):
        raise ConfigurationError(
            f"the `dsn` of resource {name!r} is no URL of the form {family}://..."
        ) from None
    backend = url.drivername.partition("+")[0]
    if {"mariadb": "mysql", "postgres": "postgresql"}.get(backend, backend) != family:
        raise ConfigurationError(f"the `dsn` of resource {name!r} must begin with {family}://")
    if "+" not in url.drivername and backend in _DRIVERS:
        url = url.set(drivername=_DRIVERS[backend])
    if family == "mysql" and "charset" not in url.query:
        url = url.update_query_dict({"charset": "utf8mb4"})
    if family == "sqlite" and url.database and url.database != ":memory:":
        url = url.set(database=str(directory / url.database))
    return url
