"""Codecs: what they carry, what they refuse, and what a worker accepts."""

from __future__ import annotations

import dataclasses
import enum
import json
import logging
import math
import pickle
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqs_workers import SQSEnv, register_codec
from sqs_workers.codecs import CONTENT_TYPES_CODECS, get_codec
from sqs_workers.exceptions import (
    ConfigurationError,
    SerializationError,
    UndecodableMessageError,
    UnknownCodecError,
)
from sqs_workers.testing import sent_jobs
from sqs_workers.typed_json import register_type

JSON = get_codec("json")
TYPED = get_codec("json_typed")


@register_type
class Color(enum.Enum):
    RED = "r"
    GREEN = "g"


@register_type(name="perm.v1")
class Permission(enum.Flag):
    READ = 1
    WRITE = 2


@register_type
@dataclasses.dataclass(frozen=True)
class Line:
    price: Decimal
    color: Color
    tags: tuple[str, ...] = ()
    total: int = dataclasses.field(init=False, default=0)


class Unregistered(enum.Enum):
    A = 1


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.datetimes(timezones=st.none() | st.just(timezone.utc)),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.decimals(allow_nan=False),
    st.sampled_from(list(Color)),
    st.sampled_from([Permission.READ, Permission.READ | Permission.WRITE]),
    st.builds(Line, st.decimals(allow_nan=False), st.sampled_from(list(Color)), st.just(("a",))),
)
typed = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(st.text() | st.just("$type"), inner),
        st.dictionaries(st.integers() | st.text(), inner),
        st.sets(scalars),
        st.frozensets(scalars),
    ),
    max_leaves=12,
)


@given(plain)
def test_json_reads_back_what_it_wrote_and_is_ascii(value: Any) -> None:
    text = JSON.serialize(value)
    assert text.isascii()
    assert JSON.deserialize(text) == value


@given(plain, st.sampled_from(["pickle", "pickle_compat"]))
def test_pickles_read_back_what_they_wrote(value: Any, name: str) -> None:
    codec = get_codec(name)
    assert codec.deserialize(codec.serialize(value)) == value


@given(typed)
def test_typed_json_reads_back_what_it_wrote_with_its_type(value: Any) -> None:
    again = TYPED.deserialize(TYPED.serialize(value))
    assert again == value
    assert type(again) is type(value)


def test_typed_json_is_json_for_json_values() -> None:
    assert TYPED.serialize({"a": [1, "x", None]}) == '{"a": [1, "x", null]}'


def test_typed_json_carries_nan_and_what_equality_does_not_show() -> None:
    assert math.isnan(TYPED.deserialize(TYPED.serialize(float("nan"))))
    line = Line(Decimal("1.10"), Color.RED)
    object.__setattr__(line, "total", 5)
    assert TYPED.deserialize(TYPED.serialize(line)).total == 5
    assert str(TYPED.deserialize(TYPED.serialize(Decimal("1.10")))) == "1.10"


@pytest.mark.parametrize(
    "text",
    [
        '{"$type": "os.system", "value": "ls"}',
        '{"$type": "dataclass", "name": "os.Thing", "value": {}}',
        '{"$type": "uuid", "value": 5}',
        '{"$type": "datetime"}',
        '{"$type": ["x"], "value": 1}',
    ],
)
def test_typed_json_refuses_tags_that_it_does_not_know(text: str) -> None:
    with pytest.raises(UndecodableMessageError):
        TYPED.deserialize(text)


def test_typed_json_names_the_argument_that_is_not_registered() -> None:
    with pytest.raises(SerializationError, match=r"'order\.kind'.*register_type") as raised:
        TYPED.serialize({"order": {"kind": Unregistered.A}})
    assert raised.value.argument == "order.kind"


def test_only_enums_and_dataclasses_are_registered_each_under_its_own_name() -> None:
    with pytest.raises(ConfigurationError):
        register_type(int)
    other = enum.Enum("Other", "A", module="elsewhere")
    with pytest.raises(ConfigurationError, match="already"):
        register_type(name="Color")(other)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (datetime(2025, 1, 1), "x"),
        ({"a": [1, {"b": Decimal(1)}]}, "x.a[1].b"),
        ({1: "a"}, "x"),
        ([float("nan")], "x[0]"),
        ({1, 2}, "x"),
        (b"x", "x"),
        (object(), "x"),
        (UUID(int=1), "x"),
        (date(2025, 1, 1), "x"),
        (time(1), "x"),
        (timedelta(1), "x"),
    ],
)
def test_json_refuses_what_it_cannot_carry_and_names_the_argument(queue: Any, value: Any, path: str) -> None:
    @queue.processor("send")
    def send(x: Any) -> None: ...

    with pytest.raises(SerializationError) as raised:
        send.delay(value)
    assert raised.value.argument == path
    assert "emails.send" in str(raised.value)
    assert repr(path) in str(raised.value)
    assert sent_jobs(queue) == []


def test_json_refuses_cycles_and_bottomless_nesting() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: Any = None
    for _ in range(100_000):
        deep = [deep]
    for value in (cycle, deep):
        with pytest.raises(SerializationError):
            JSON.serialize({"x": value})


def test_json_makes_lists_of_tuples() -> None:
    assert JSON.deserialize(JSON.serialize({"x": (1, 2)})) == {"x": [1, 2]}


def test_pickle_names_the_argument_that_it_cannot_carry() -> None:
    with pytest.raises(SerializationError) as raised:
        get_codec("pickle").serialize({"a": 1, "f": lambda: None})
    assert raised.value.argument == "f"


@pytest.mark.parametrize("text", ["a\x00b", "\x1b[0m", "\ud800", "🎉 emoji", "\u2028", "\ufffe"])
def test_f43_control_characters_and_emoji_arrive_as_they_were_sent(queue: Any, text: str) -> None:
    seen = []
    queue.connect_processor("send", lambda x: seen.append(x)).delay(text)
    queue.process_batch()
    assert seen == [text]


def test_wire_format_is_what_it_always_was() -> None:
    assert JSON.serialize({"a": (1, "é")}) == '{"a": [1, "\\u00e9"]}'
    import base64
    import zlib

    for name, protocol in (("pickle", pickle.DEFAULT_PROTOCOL), ("pickle_compat", 2)):
        raw = zlib.decompress(base64.urlsafe_b64decode(get_codec(name).serialize({"a": 1})))
        assert raw == pickle.dumps({"a": 1}, protocol=protocol)


def test_a_codec_of_ones_own_is_registered_by_name(session: Any, monkeypatch: Any) -> None:
    from sqs_workers import create_standard_queue

    class Upper:
        def serialize(self, message: Any) -> str:
            return json.dumps(message).upper()

        def deserialize(self, serialized: str) -> Any:
            return json.loads(serialized.lower())

    monkeypatch.setattr("sqs_workers.codecs.CONTENT_TYPES_CODECS", CONTENT_TYPES_CODECS)
    register_codec("upper", Upper())
    try:
        env = SQSEnv(session, codec="upper")
        create_standard_queue(env, "q")
        seen = []
        env.queue("q").connect_processor("send", lambda x: seen.append(x)).delay("a")
        env.process_batch("q")
        assert seen == ["a"]
    finally:
        del CONTENT_TYPES_CODECS["upper"]
    with pytest.raises(ConfigurationError, match="deserialize"):
        register_codec("half", type("Half", (), {"serialize": str})())


def test_an_unknown_codec_is_refused_with_the_known_ones(queue: Any) -> None:
    with pytest.raises(UnknownCodecError, match="known are json"):
        queue.add_job("send", _content_type="xml")
    with pytest.raises(KeyError):
        get_codec("xml")
    with pytest.raises(UnknownCodecError):
        SQSEnv(codec="xml")


def test_what_a_worker_accepts_follows_the_codec(session: Any, caplog: Any) -> None:
    everything = {"json", "pickle", "pickle_compat"}
    assert SQSEnv(session).accept == everything
    assert SQSEnv(session, codec="json").accept == {"json"}
    assert SQSEnv(session, codec="json_typed").accept == {"json", "json_typed"}
    assert SQSEnv(session, codec="json", accept=["pickle"]).accept == {"pickle"}
    with pytest.raises(ConfigurationError):
        SQSEnv(session, accept=[])
    with pytest.raises(UnknownCodecError):
        SQSEnv(session, accept=["xml"])


def test_a_pickle_default_is_said_once_when_a_worker_starts(session: Any, caplog: Any) -> None:
    from sqs_workers import create_standard_queue

    env = SQSEnv(session)
    create_standard_queue(env, "q")
    env.queue("q").process_batch()
    env.queue("q").process_batch()
    assert [(r.levelno, "codec='json'" in r.getMessage()) for r in caplog.records] == [
        (logging.WARNING, True)
    ]
    caplog.clear()
    for quiet in (SQSEnv(session, codec="json"), SQSEnv(session, accept=["pickle_compat"])):
        quiet.queue("q").process_batch()
    assert caplog.records == []
