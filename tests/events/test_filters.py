"""Conditions on values, spelled as SNS spells them."""

from __future__ import annotations

from typing import Any

import pytest

from sqs_workers.envelopes import matches_filter


@pytest.mark.parametrize(
    ("condition", "holds", "fails"),
    [
        ("shop", ["shop"], ["shop2", "", None, 7]),
        (True, ["true", True], ["True", "1", None]),
        (7, ["7", "7.0", 7], ["70", "x", None, True]),
        ({"prefix": "order/"}, ["order/", "order/7"], ["Order/7", None, b"order/7"]),
        ({"suffix": ".csv"}, ["a.csv"], ["a.csv.gz", None]),
        ({"anything-but": "test"}, ["shop", ""], ["test", None]),
        ({"anything-but": ["a", {"prefix": "b"}]}, ["c"], ["a", "bc", None]),
        ({"exists": True}, ["", "x"], [None]),
        ({"exists": False}, [None], ["", "x"]),
        ({"numeric": [">", 0, "<=", 5]}, ["5", "0.1", 3], ["0", "5.1", "x", None, "NaN", "Infinity", True]),
        ({"numeric": ["=", 9.9]}, ["9.9", "9.90"], ["9.91", "1" * 100]),
        (["a", {"prefix": "b"}], ["a", "bc"], ["c", None]),
    ],
)
def test_a_condition_holds_for_what_sns_would_let_through(
    condition: Any, holds: list[Any], fails: list[Any]
) -> None:
    assert [value for value in holds if not matches_filter(condition, value)] == []
    assert [value for value in fails if matches_filter(condition, value)] == []
