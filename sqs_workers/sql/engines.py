"""A SQLAlchemy engine from a DSN, with the settings that this package relies on."""

from __future__ import annotations

from typing import Any

from sqs_workers.exceptions import ConfigurationError, MissingExtraError
from sqs_workers.sql.sqla import sa

__all__ = ["create_engine"]

_DRIVERS = {
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
_EXTRAS = {"psycopg": "postgres", "pymysql": "mysql"}


def create_engine(dsn: str, **options: Any) -> sa.Engine:
    """An engine that keeps values out of error texts and checks a connection before it hands it out.

    ``postgresql://`` stands for psycopg, ``mysql://`` and ``mariadb://`` for PyMySQL in utf8mb4.

    :param dsn: for instance ``postgresql://user:password@host/database``.
    :param options: passed on to :func:`sqlalchemy.create_engine`.
    :raises ConfigurationError: the DSN cannot be read; it is not repeated in the error.
    :raises MissingExtraError: its driver is not installed.
    """
    try:
        url = sa.make_url(dsn)
    except sa.exc.ArgumentError:
        raise ConfigurationError(
            "the DSN cannot be read: write DIALECT://USER:PASSWORD@HOST:PORT/DATABASE"
        ) from None
    url = url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))
    if url.get_backend_name() in ("mysql", "mariadb") and "charset" not in url.query:
        url = url.update_query_dict({"charset": "utf8mb4"})
    try:
        return sa.create_engine(url, **{"hide_parameters": True, "pool_pre_ping": True, **options})
    except sa.exc.NoSuchModuleError:
        raise ConfigurationError(
            f"SQLAlchemy knows no dialect {url.drivername!r}: use postgresql, mysql, mariadb or sqlite"
        ) from None
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(error.name or "")
        if extra is None:
            raise
        raise MissingExtraError(
            f"{url.get_backend_name()} needs the driver {error.name}, which is not installed: "
            f"pip install 'sqs-workers[{extra}]'"
        ) from None
