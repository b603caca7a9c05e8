"""Working a queue with several processes."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import pytest

from sqs_workers import (
    AndShutdown,
    IdleShutdown,
    MaxTasksShutdown,
    NeverShutdown,
    OrShutdown,
    SQSEnv,
    create_standard_queue,
)
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.queues import children
from sqs_workers.shutdown_policies import ASAP_SHUTDOWN
from sqs_workers.worker import PauseOn
from tests.servers import boto_session


@pytest.fixture
def importable(env: SQSEnv, monkeypatch: Any) -> str:
    module = types.ModuleType("an_application")
    module.sqs = env  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "an_application", module)
    return "an_application:sqs"


class Own(NeverShutdown):
    """A user's own shutdown policy."""


def database_is_down(error: BaseException) -> bool:
    return isinstance(error, TimeoutError)


def test_an_environment_is_found_where_it_is_a_global(env: SQSEnv, importable: str) -> None:
    assert children.find_environment(env) == importable
    assert children.import_environment(importable) is env
    with pytest.raises(ConfigurationError, match="env_path"):
        children.find_environment(SQSEnv(codec="json"))


def test_children_get_what_json_carries(env: SQSEnv, queue: Any, importable: str, monkeypatch: Any) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(
        "sqs_workers.worker.processes.run_processes",
        lambda target, kwargs, **options: calls.append((target, kwargs, options)) or 0,
    )
    queue.connect_processor("job", lambda: None)
    result = queue.process_queue(MaxTasksShutdown(3), 5, processes=2, concurrency=4, shutdown_timeout=9)
    assert result.exit_code == 0
    ((target, kwargs, options),) = calls
    assert target == "sqs_workers.queues.children:work_queue"
    assert kwargs["env_path"] == importable
    assert json.loads(json.dumps(kwargs)) == kwargs
    assert kwargs["options"] == {
        "wait_second": 5,
        "heartbeat": None,
        "visibility_timeout": None,
        "concurrency": 4,
        "shutdown_timeout": 9,
        "missing": "fail",
    }
    assert options == {"processes": 2, "shutdown_timeout": 9}


@pytest.mark.parametrize(
    "policy",
    [
        NeverShutdown(),
        IdleShutdown(3),
        ASAP_SHUTDOWN,
        OrShutdown(MaxTasksShutdown(2), AndShutdown(IdleShutdown(1), NeverShutdown())),
        Own(),
    ],
    ids=repr,
)
def test_a_child_is_given_policies_of_its_own(
    policy: Any, env: SQSEnv, queue: Any, importable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuit = PauseOn((ConnectionError,), when=database_is_down)
    given: list[Any] = []
    monkeypatch.setattr(
        type(queue), "process_queue", lambda self, *args, **options: given.append((args, options))
    )

    children.work_queue(importable, queue.name, children._as_text(policy, circuit), {"concurrency": 2})

    (((made,), options),) = given
    assert type(made) is type(policy)
    assert made is not policy
    assert options == {"concurrency": 2, "circuit": circuit}


def test_what_cannot_be_handed_to_children_is_refused(env: SQSEnv, queue: Any, importable: str) -> None:
    class Local(Own):
        pass

    with pytest.raises(ConfigurationError, match="picklable"):
        queue.process_queue(Local(), processes=2)
    with pytest.raises(ConfigurationError, match="picklable"):
        queue.process_queue(processes=2, circuit=PauseOn(when=lambda error: True))
    with pytest.raises(ConfigurationError, match="another environment"):
        SQSEnv(codec="json").queue("q").process_queue(processes=2, env_path=importable)


@pytest.mark.wire
def test_two_processes_work_a_queue_until_it_is_empty(local_endpoint: str, tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(
        textwrap.dedent(
            f"""
            import os, pathlib
            from tests.servers import boto_session
            from sqs_workers import IdleShutdown, SQSEnv

            sqs = SQSEnv(boto_session({local_endpoint!r}), "children-", codec="json")
            queue = sqs.queue("q")

            @queue.processor("job")
            def job(n):
                pathlib.Path({str(tmp_path)!r}, f"done-{{n}}-{{os.getpid()}}").touch()

            def main():
                result = queue.process_queue(IdleShutdown(1), 1, processes=2, concurrency=2)
                raise SystemExit(result.exit_code)
            """
        )
    )
    env = SQSEnv(boto_session(local_endpoint), "children-", codec="json")
    create_standard_queue(env, "q")
    with env.queue("q").add_batch():
        for n in range(40):
            env.queue("q").add_job("job", n=n)
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", "import application; application.main()"],
        env={"PYTHONPATH": f"{tmp_path}:{root}", "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(int(p.name.split("-")[1]) for p in tmp_path.glob("done-*")) == list(range(40))
