from __future__ import annotations

from typing import Any

import pytest

from sqs_workers.local import KINDS, FaultPlan, FaultRule


def hits(
    plan: FaultPlan, calls: int, operation: str = "ReceiveMessage", queue: str | None = None
) -> list[int]:
    return [number for number in range(calls) if plan.decide(operation, queue) is not None]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("ReceiveMessage:throttle", FaultRule("ReceiveMessage", "throttle")),
        ("ReceiveMessage:throttle:0.05", FaultRule("ReceiveMessage", "throttle", 0.05)),
        ("*:500", FaultRule("*", "error500")),
        ("*:slow::seconds=2,count=3", FaultRule("*", "slow", seconds=2.0, count=3)),
        (
            "DeleteMessageBatch:partial:1:entries=1+4,code=InternalError,sender_fault=true,queue=mail,after=2",
            FaultRule(
                "DeleteMessageBatch",
                "partial",
                entries=(1, 4),
                code="InternalError",
                sender_fault=True,
                queue="mail",
                after=2,
            ),
        ),
    ],
)
def test_a_rule_is_read_from_text(text: str, rule: FaultRule) -> None:
    assert FaultRule.parse(text) == rule


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ReceiveMessage", "OPERATION:KIND"),
        (":throttle", "needs an operation"),
        ("*:explode", "no fault is called 'explode'; there are throttle"),
        ("*:slow:often", "often"),
        ("*:slow:1.5", "between 0 and 1"),
        ("*:slow:1:seconds=-1", "not negative"),
        ("*:slow:1:seconds", "seconds"),
        ("*:slow:1:colour=red", "no option 'colour'"),
        ("*:slow:1:count=-1", "-1 times"),
        ("*:partial:1:entries=0", "counted from 1"),
        ("*:partial:1:sender_fault=maybe", "neither true nor false"),
    ],
)
def test_what_is_no_rule_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("(", "\\(")):
        FaultRule.parse(text)


def test_a_rule_is_read_from_json_values() -> None:
    values: dict[str, Any] = {"operation": "*", "kind": "partial", "entries": [2], "count": 1}
    assert FaultRule.from_dict(values) == FaultRule("*", "partial", entries=(2,), count=1)
    with pytest.raises(ValueError, match="'often'"):
        FaultRule.from_dict({**values, "often": True})
    with pytest.raises(ValueError, match="no fault"):
        FaultRule.from_dict({"kind": "slow"})


def test_the_same_seed_hits_the_same_calls() -> None:
    rules = ["*:throttle:0.3"]
    first = hits(FaultPlan(rules, seed=1), 200)
    assert first == hits(FaultPlan(rules, seed=1), 200)
    assert first != hits(FaultPlan(rules, seed=2), 200)
    assert 30 < len(first) < 90


def test_another_rule_does_not_disturb_the_sequence_of_one() -> None:
    alone = FaultPlan(["ReceiveMessage:throttle:0.3"], seed=1)
    accompanied = FaultPlan(["ReceiveMessage:throttle:0.3", "SendMessage:reset:0.5"], seed=1)
    expected = hits(alone, 100)
    found = []
    for number in range(100):
        accompanied.decide("SendMessage", None)
        if accompanied.decide("ReceiveMessage", None) is not None:
            found.append(number)
    assert found == expected


def test_count_after_and_queue_limit_a_rule() -> None:
    assert hits(FaultPlan(["*:reset:1:count=2,after=3"]), 10) == [3, 4]
    plan = FaultPlan(["*:reset:1:queue=mail"])
    assert hits(plan, 2, queue="reports") == []
    assert hits(plan, 2, queue="mail") == [0, 1]
    assert hits(FaultPlan(["SendMessage:reset"]), 2) == []


def test_the_first_rule_that_hits_decides() -> None:
    plan = FaultPlan(["*:reset:1:count=1", "*:throttle"])
    kinds = [
        rule.kind for rule in (plan.decide("SendMessage", None), plan.decide("SendMessage", None)) if rule
    ]
    assert kinds == ["reset", "throttle"]


def test_rules_are_added_replaced_and_cleared() -> None:
    plan = FaultPlan()
    assert hits(plan, 2) == []
    plan.add("*:reset")
    assert hits(plan, 2) == [0, 1]
    assert plan.happened() == [{"operation": "*", "kind": "reset", "met": 2, "happened": 2}]
    plan.set([FaultRule("*", "reset", 0.0)])
    assert hits(plan, 2) == []
    plan.clear()
    assert plan.happened() == []


def test_a_plan_that_cannot_be_read_leaves_the_old_one_in_force() -> None:
    plan = FaultPlan(["*:reset"])
    with pytest.raises(ValueError, match="explode"):
        plan.set(["*:throttle", "*:explode"])
    assert plan.decide("SendMessage", None) == FaultRule("*", "reset")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_what_it_does(kind: str) -> None:
    assert "execut" in KINDS[kind]
