"""The hash of a payload: the same for the same payload, however it is written, and for no other."""

from __future__ import annotations

import enum
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.sql.hashing import NO_PAYLOAD, payload_hash, same_payload, stored_id

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
payloads = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def shuffled(value: Any) -> Any:
    """The same payload, its mappings written backwards and its lists as tuples."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    return tuple(shuffled(item) for item in value) if isinstance(value, list) else value


def typed(value: Any) -> Any:
    """A form that is equal for two payloads exactly if they are the same in value and type."""
    if isinstance(value, dict):
        return ("dict", frozenset((key, typed(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(typed(item) for item in value))
    return (type(value).__name__, repr(value))


@given(payloads)
def test_order_of_keys_and_kind_of_sequence_make_no_difference(payload: Any) -> None:
    assert payload_hash(payload) == payload_hash(shuffled(payload))


@given(payloads, payloads)
def test_two_payloads_hash_alike_only_if_they_are_the_same(one: Any, other: Any) -> None:
    assert (payload_hash(one) == payload_hash(other)) == (typed(one) == typed(other))


class Colour(enum.Enum):
    RED = "red"


def test_values_that_codecs_carry_are_hashed() -> None:
    values: list[Any] = [
        Decimal("1.0"),
        Decimal("1.00"),
        UUID(int=1),
        str(UUID(int=1)),
        datetime(2026, 1, 1),
        datetime(2026, 1, 1, tzinfo=timezone.utc),
        date(2026, 1, 1),
        timedelta(1),
        {1, 2},
        [1, 2],
        b"red",
    ]
    assert len({payload_hash(value) for value in values}) == len(values)
    assert payload_hash(Colour.RED) == payload_hash("red")
    assert payload_hash({2, 1}) == payload_hash(frozenset([1, 2]))
    east = datetime(2026, 1, 1, 5, tzinfo=timezone(timedelta(hours=5)))
    assert payload_hash(east) == payload_hash(datetime(2026, 1, 1, tzinfo=timezone.utc))


def test_the_hash_of_a_payload_stays_what_it_was() -> None:
    payload = {"b": [1, 2.5, None, True], "a": "ä"}
    assert payload_hash(payload) == "1:2613a80445f1553f269c66d8a9c7d7cde63ff40f3c157bb6903817f09df0e769"


def test_what_cannot_be_hashed_is_named_by_its_place_and_type_alone() -> None:
    class Thing:
        def __repr__(self) -> str:
            return "s3cret"

    with pytest.raises(ConfigurationError, match=r"payload\.order\[1\] holds a Thing") as caught:
        payload_hash({"order": [1, Thing()]})
    assert "s3cret" not in str(caught.value)


def test_without_a_payload_or_with_another_version_nothing_is_compared() -> None:
    assert same_payload(payload_hash(1), payload_hash(NO_PAYLOAD))
    assert same_payload(payload_hash(NO_PAYLOAD), payload_hash(1))
    assert same_payload("2:other", payload_hash(1))
    assert same_payload(payload_hash(1), payload_hash(1))
    assert not same_payload(payload_hash(1), payload_hash(2))


@given(st.text(min_size=1), st.text(min_size=1))
def test_stored_ids_fit_the_column_and_differ_as_the_ids_do(one: str, other: str) -> None:
    assert len(stored_id(one)) <= 255
    assert (stored_id(one) == stored_id(other)) == (one == other)


def test_an_ordinary_id_is_stored_as_it_is() -> None:
    for event_id in ("evt-1", "a" * 255, "with blanks inside", "é"):
        assert stored_id(event_id) == event_id
    hashed = stored_id("a" * 256)
    assert hashed.startswith("sha256:")
    assert stored_id(hashed) != hashed


def test_which_ids_are_hashed_does_not_depend_on_the_version_of_unicode() -> None:
    # U+1FAE8 came with Unicode 15, U+0378 is not assigned: Python 3.10 calls neither printable.
    for event_id in ("evt-\U0001fae8", "evt-\u0378", "evt\u00a0", "evt\u2028", "e\u0301", "\u00e9"):
        assert stored_id(event_id) == event_id
    assert stored_id("e\u0301") != stored_id("\u00e9")
