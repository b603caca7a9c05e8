"""Jobs travel both ways between this package and the real sqs-workers 0.7.3, through an emulator."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqs_workers import SQSEnv, create_fifo_queue, create_standard_queue
from tests.servers import boto_session
from tests.wire import other_side

pytestmark = [pytest.mark.wire, pytest.mark.timeout(240)]

SCRIPT = Path(other_side.__file__)
ROOT = SCRIPT.parents[2]
# 0.7.3 imports typing_extensions without asking for it.
REQUIREMENTS = ["sqs-workers==0.7.3", "typing-extensions"]


@pytest.fixture(scope="session")
def old_python(pytestconfig: pytest.Config) -> Path:
    """An interpreter that imports the real sqs-workers 0.7.3."""
    home = Path(pytestconfig.cache.mkdir("sqs-workers-0.7.3"))  # type: ignore[union-attr]
    home = (
        home
        / f"python{sys.version_info[0]}{sys.version_info[1]}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    )
    python = home / "bin" / "python"
    check = [str(python), "-c", "import sqs_workers.sqs_env"]
    if python.exists() and subprocess.run(check, check=False, capture_output=True).returncode == 0:
        return python
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    install = subprocess.run(
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *REQUIREMENTS],
        check=False,
        capture_output=True,
        text=True,
    )
    if install.returncode:
        reason = f"sqs-workers 0.7.3 cannot be installed: {install.stderr.strip()[-300:]}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return python


@pytest.fixture
def endpoint(ministack_endpoint: str) -> Iterator[str]:
    env = SQSEnv(boto_session(ministack_endpoint), queue_prefix=other_side.PREFIX)
    for name in ("jobs", "reader", "raw"):
        create_standard_queue(env, name)
    create_fifo_queue(env, "ordered.fifo")
    yield ministack_endpoint
    for name in ("jobs", "reader", "raw", "ordered.fifo"):
        env.sqs_client.delete_queue(
            QueueUrl=env.sqs_client.get_queue_url(QueueName=other_side.PREFIX + name)["QueueUrl"]
        )


def run(python: Path | str, action: str, endpoint: str, output: Path) -> list[tuple[object, ...]]:
    env = {
        "PATH": os.environ["PATH"],
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    if str(python) == sys.executable:
        env["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [str(python), "-W", "ignore", str(SCRIPT), action, str(output)],
        check=False,
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    with output.open("rb") as file:
        received: list[tuple[object, ...]] = pickle.load(file)
    return received


@pytest.mark.parametrize("direction", ["old to new", "new to old"])
def test_jobs_of_one_package_run_in_the_other_with_equal_values(
    direction: str, endpoint: str, old_python: Path, tmp_path: Path
) -> None:
    sender, worker = (
        (old_python, sys.executable) if direction == "old to new" else (sys.executable, old_python)
    )

    run(sender, "send", endpoint, tmp_path / "sent")
    received = run(worker, "work", endpoint, tmp_path / "received")

    records = [entry[1:] for entry in received if entry[0] == "record"]
    expected = [(codec, other_side.values_for(codec), other_side.CONTEXT) for codec in other_side.CODECS]
    expected += [("pickle_compat", other_side.JSON_VALUES, {}), ("baked", [], {})]
    assert sorted(map(repr, records)) == sorted(map(repr, expected))

    assert sorted(entry[1] for entry in received if entry[0] == "batched") == list(range(23))
    assert sorted(entry[1] for entry in received if entry[0] == "read") == list(range(4))
    for group in ("a", "b"):
        steps = [entry[2] for entry in received if entry[:2] == ("step", group)]
        assert steps == list(range(6))
    assert [entry[1] for entry in received if entry[0] == "raw"] == ["Hello world, Привет"]
