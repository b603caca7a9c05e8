"""SQS emulators as subprocesses, for the tests that talk over the wire.

Every server listens on a free port of 127.0.0.1, writes to a temporary file and is stopped by its process id.
Under pytest-xdist each worker process starts its own. A server whose package is absent skips the test on a
developer's machine and fails it when the environment variable ``CI`` is set.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

__all__ = [
    "SERVER_PIDS",
    "EndpointSession",
    "boto_session",
    "free_port",
    "local_endpoint",
    "ministack_endpoint",
    "moto_endpoint",
    "require_ministack",
    "require_moto",
    "reset_ministack",
    "reset_moto",
    "server_absent",
    "start_local",
    "start_ministack",
    "start_moto",
    "wire_client",
    "without_moto",
]

HOST = "127.0.0.1"
REGION = "us-east-1"
START_SECONDS = 60.0
STOP_SECONDS = 5.0

SERVER_PIDS: set[int] = set()
"""Processes that outlive one test on purpose."""


class EndpointSession:
    """A boto3 session whose clients and resources talk to one endpoint, with credentials of no use."""

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.endpoint = endpoint
        self.region_name = REGION
        self._session: Any = boto3.session.Session(
            aws_access_key_id="testing", aws_secret_access_key="testing", region_name=REGION
        )
        without_moto(self._session.events)

    def client(self, service: str, **options: Any) -> Any:
        return self._session.client(service, **self._with_defaults(options))

    def resource(self, service: str, **options: Any) -> Any:
        return self._session.resource(service, **self._with_defaults(options))

    def _with_defaults(self, options: dict[str, Any]) -> dict[str, Any]:
        from botocore.config import Config

        fast = Config(
            connect_timeout=2,
            read_timeout=30,
            retries={"total_max_attempts": 2, "mode": "standard"},
            max_pool_connections=20,
        )
        given = options.get("config")
        options["config"] = fast if given is None else fast.merge(given)
        options.setdefault("endpoint_url", self.endpoint)
        return options


def without_moto(events: Any) -> None:
    """Take away the handler that moto adds to every session once it is imported."""
    if "moto.core" in sys.modules:
        from moto.core.models import botocore_stubber

        events.unregister("before-send", botocore_stubber)


def boto_session(endpoint: str) -> EndpointSession:
    """A session that stands where user code passes ``boto3``."""
    return EndpointSession(endpoint)


def wire_client(endpoint: str) -> Any:
    """A boto3 SQS client of that endpoint."""
    return EndpointSession(endpoint).client("sqs")


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def server_absent(package: str, install: str) -> NoReturn:
    """Skip on a laptop, fail in CI: there a missing server must not look like a passing suite."""
    reason = f"the package {package!r} is not installed: pip install {install}"
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def require_moto() -> None:
    """Skip, or fail in CI, unless moto and what its server needs are installed."""
    if not (_is_installed("moto") and _is_installed("flask")):
        server_absent("moto", "'moto[server]'")


def require_ministack() -> None:
    """Skip, or fail in CI, unless MiniStack is installed."""
    if not _is_installed("ministack"):
        server_absent("ministack", "ministack")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return True
    except OSError:
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)


@contextlib.contextmanager
def _serve(command: Sequence[str], port: int, environment: Mapping[str, str], ready: str) -> Iterator[str]:
    endpoint = f"http://{HOST}:{port}"
    with tempfile.TemporaryDirectory(prefix="sqs-server-") as directory:
        log = Path(directory) / "output.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                cwd=directory,
            )
        SERVER_PIDS.add(process.pid)
        try:
            _wait_until_ready(process, endpoint + ready, log)
            yield endpoint
        finally:
            _stop(process)
            SERVER_PIDS.discard(process.pid)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    pause = threading.Event()
    while not _answers(url):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{process.args!r} did not come up (exit code {process.poll()}):\n{tail}")
        pause.wait(0.05)


def _post(url: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=10):
        pass


@contextlib.contextmanager
def start_moto() -> Iterator[str]:
    """Run moto's server; yields its endpoint URL."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)]
    with _serve(command, port, {"PYTHONWARNINGS": "ignore"}, "/moto-api/data.json") as endpoint:
        yield endpoint


@contextlib.contextmanager
def start_ministack() -> Iterator[str]:
    """Run MiniStack; yields its endpoint URL."""
    port = free_port()
    script = Path(sys.executable).with_name("ministack")
    as_module = importlib.util.find_spec("ministack.__main__") is not None
    command = [sys.executable, "-m", "ministack"] if as_module else [str(script)]
    environment = {
        "BIND_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "MINISTACK_HOST": HOST,
        "PYTHONWARNINGS": "ignore",
    }
    with _serve(command, port, environment, "/_ministack/health") as endpoint:
        yield endpoint


@contextlib.contextmanager
def start_local(*options: str) -> Iterator[str]:
    """Run the local endpoint with ``options`` of its command line; yields its URL."""
    port = free_port()
    command = [sys.executable, "-m", "sqs_workers.local", "--port", str(port), *options]
    with _serve(command, port, {"PYTHONPATH": str(Path(__file__).parents[1])}, "/_local/stats") as endpoint:
        yield endpoint


def reset_moto(endpoint: str) -> None:
    """Delete everything that a moto server holds."""
    _post(endpoint + "/moto-api/reset")


def reset_ministack(endpoint: str) -> None:
    """Delete everything that a MiniStack holds."""
    _post(endpoint + "/_ministack/reset")


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[str]:
    """URL of a moto server that lives as long as the test session."""
    require_moto()
    with start_moto() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def ministack_endpoint() -> Iterator[str]:
    """URL of a MiniStack that lives as long as the test session."""
    require_ministack()
    with start_ministack() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def local_endpoint() -> Iterator[str]:
    """URL of the local endpoint, in a process of its own, that lives as long as the test session."""
    if not _is_installed("aiohttp"):
        server_absent("aiohttp", "'sqs-workers[local]'")
    with start_local() as endpoint:
        yield endpoint
