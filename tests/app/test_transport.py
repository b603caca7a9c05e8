"""How requests of an app get to SQS: what the file says, what the run says instead, and a refusal in time."""

from __future__ import annotations

import pytest
from botocore import handlers

from sqs_workers.app.building import Built, RunOptions, build, load_functions
from sqs_workers.app.checking import check_connections
from sqs_workers.app.loading import load
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.hooks import HookRegistry
from sqs_workers.transport import Boto3Transport, DeferredTransport, Mode
from sqs_workers.transport.lean import LeanTransport
from tests.app.world import World

HANDLER = "def handle(item): return {'event_id': item['id'], 'status': 'x'}"


@pytest.fixture(autouse=True)
def sessions_without_moto(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another test of this process may have imported moto, which adds its handler to every session."""
    ours = [entry for entry in handlers.BUILTIN_HANDLERS if not type(entry[1]).__module__.startswith("moto.")]
    monkeypatch.setattr(handlers, "BUILTIN_HANDLERS", ours)


def say(world: World, mode: str | None) -> None:
    path = world.write(handler=HANDLER, task="emit: sink")
    if mode is not None:
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("{type: sqs,", f"{{type: sqs, transport: {mode},"), encoding="utf-8")


def built(world: World, mode: Mode | None) -> Built:
    path = world.directory / "worker.yaml"
    app = load(path, {"ENDPOINT": world.endpoint})
    return build(
        app, path, load_functions(app, path), hooks=HookRegistry(), options=RunOptions(transport=mode)
    )


@pytest.mark.parametrize(
    ("of_the_file", "of_the_run", "kind"),
    [
        (None, None, Boto3Transport),
        ("lean", None, LeanTransport),
        ("auto", None, LeanTransport),
        (None, "lean", LeanTransport),
        ("lean", "boto3", Boto3Transport),
    ],
)
def test_the_run_overrides_the_file(
    of_the_file: str | None, of_the_run: Mode | None, kind: type, world: World
) -> None:
    world.queue()
    say(world, of_the_file)
    app = built(world, of_the_run)
    try:
        transport = app.connections.transport("sqs")
        assert type(transport.chosen if isinstance(transport, DeferredTransport) else transport) is kind
    finally:
        app.close()


def test_rows_are_the_same_over_the_lean_transport(world: World) -> None:
    world.queue()
    say(world, None)
    world.send(*({"id": f"e{number:02}"} for number in range(25)))
    ran = world.run(until_idle=1, transport="lean")
    assert ran.code == 0
    assert [row[0] for row in world.rows()] == [f"e{number:02}" for number in range(25)]
    assert world.counts() == (0, 0)


def test_what_lean_cannot_honour_is_said_before_anything_is_received(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.queue()
    say(world, "lean")
    world.send({"id": "a"})
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(ConfigurationError, match=r"resource 'sqs':.*prox"):
        built(world, None)
    monkeypatch.delenv("http_proxy")
    assert world.counts() == (1, 0)


def test_a_check_finds_what_lean_cannot_honour(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.queue()
    say(world, "lean")
    path = world.directory / "worker.yaml"
    app = load(path, {"ENDPOINT": world.endpoint})
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    found = [finding for finding in check_connections(app, path) if finding.level == "error"]
    assert [finding.resource for finding in found] == ["events"]
    assert "prox" in found[0].message
