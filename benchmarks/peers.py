"""Who takes part, and the environments of those who must not meet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CONTENDERS", "Contender", "UnavailableError", "default_cache", "prepare"]

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = Path(__file__).resolve().parent / "contenders"


class UnavailableError(Exception):
    """A contender cannot be installed here."""


@dataclass(frozen=True)
class Contender:
    """A script in ``contenders/`` and what it needs.

    :param requirements: what ``pip`` installs for it into an environment of its own; empty: it runs
        in the environment of the harness.
    :param distribution: whose version is shown in the report.
    :param transport: what this library talks through.
    """

    name: str
    script: str
    requirements: tuple[str, ...] = ()
    distribution: str = "boto3"
    transport: str = "boto3"

    def environment(self) -> dict[str, str]:
        """The environment variables that let the script find what it may import."""
        paths = [str(SCRIPTS)] if self.requirements else [str(ROOT), str(SCRIPTS)]
        return {"PYTHONPATH": os.pathsep.join(paths), "BENCH_TRANSPORT": self.transport}


CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender("ours", "run_ours.py"),
        Contender("ours-lean", "run_ours.py", transport="lean"),
        Contender("raw", "run_raw.py"),
        Contender("raw-tuned", "run_raw_tuned.py"),
        Contender(
            "sqs-workers", "run_sqs_workers.py", ("sqs-workers==0.7.3", "typing-extensions"), "sqs-workers"
        ),
        Contender("celery", "run_celery.py", ("celery[sqs]",), "celery"),
        Contender("dramatiq", "run_dramatiq.py", ("dramatiq_sqs",), "dramatiq-sqs"),
        Contender("taskiq", "run_taskiq.py", ("taskiq-aio-sqs",), "taskiq-aio-sqs"),
        Contender("pyqs", "run_pyqs.py", ("PyQS",), "pyqs"),
    )
}


def default_cache() -> Path:
    """Where environments are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sqs-workers-benchmarks"


def prepare(contender: Contender, cache: Path) -> str:
    """The Python that runs ``contender``, its environment made if it is not there.

    :raises UnavailableError: if its requirements cannot be installed.
    """
    if not contender.requirements:
        return sys.executable
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    home = cache / f"{contender.name}-{version}"
    python = home / "bin" / "python"
    wanted = json.dumps(contender.requirements)
    marker = home / "benchmarks-installed.json"
    if marker.exists() and marker.read_text() == wanted:
        return str(python)
    print(f"Installing {', '.join(contender.requirements)} into {home}", file=sys.stderr, flush=True)
    commands = [
        [sys.executable, "-m", "venv", "--clear", str(home)],
        [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *contender.requirements,
        ],
    ]
    for command in commands:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise UnavailableError(f"{contender.name} cannot be installed: {done.stderr.strip()[-500:]}")
    marker.write_text(wanted)
    return str(python)


def version_of(contender: Contender, python: str) -> str:
    """The version of the distribution that stands for ``contender``."""
    if contender.script == "run_ours.py":
        return "this checkout"
    code = f"from importlib.metadata import version; print(version({contender.distribution!r}))"
    done = subprocess.run([python, "-c", code], check=False, capture_output=True, text=True)
    return f"{contender.distribution} {done.stdout.strip()}"
