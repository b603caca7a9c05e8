"""What the lean transport is to reach; see :mod:`benchmarks.targets`."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from benchmarks.measure import Bench
from benchmarks.peers import CONTENDERS
from benchmarks.targets import (
    DRAIN_MESSAGES,
    Plan,
    Result,
    drain_values,
    enqueue_in_turns,
    take_turns,
)

__all__ = ["LEAN_TARGETS"]


def _drain(bench: Bench, plan: Plan, result: Result, names: tuple[str, ...], latency_ms: float) -> None:
    def measure(name: str) -> dict[str, float]:
        # Twice as many without latency: two to four seconds of each.
        messages = plan.messages(DRAIN_MESSAGES[name] * (1 if latency_ms else 2))
        return drain_values(bench.drain(CONTENDERS[name], messages, concurrency=16, latency_ms=latency_ms))

    take_turns(result, plan, names, measure)


def l1(bench: Bench, plan: Plan) -> Result:
    result = Result("L1", "Lean: drain, 0 ms a request, concurrency 16, one process")
    _drain(bench, plan, result, ("ours-lean", "ours", "raw-tuned", "raw", "sqs-workers"), 0)
    for peer, least in (("raw-tuned", 3), ("sqs-workers", 5)):
        asked = f"messages/s of {peer}, at least {least}"
        result.judge_ratio(asked, "messages/s", "ours-lean", peer, least=least)
    result.judge_ratio("CPU of raw, at most 0.35", "CPU s/1,000", "ours-lean", "raw", most=0.35)
    return result


def l2(bench: Bench, plan: Plan) -> Result:
    result = Result("L2", "Lean: drain, 10 ms a request, concurrency 16, one process")
    _drain(bench, plan, result, ("ours-lean", "ours", "raw-tuned"), 10)
    asked = "messages/s of raw-tuned, at least 2"
    result.judge_ratio(asked, "messages/s", "ours-lean", "raw-tuned", least=2)
    return result


def l3(bench: Bench, plan: Plan) -> Result:
    result = Result("L3", "Lean: enqueue one by one, 0 ms a request")
    enqueue_in_turns(bench, plan, result, ("ours-lean", "ours", "raw"), "enqueue", 3000, 0)
    result.judge_ratio("jobs/s of the raw client, at least 3", "jobs/s", "ours-lean", "raw", least=3)
    return result


def l4(bench: Bench, plan: Plan) -> Result:
    result = Result("L4", "Lean: enqueue in batches, 0 ms a request")
    enqueue_in_turns(bench, plan, result, ("ours-lean", "ours", "raw"), "enqueue_batch", 10_000, 0)
    result.judge_ratio("jobs/s of the raw client, at least 3", "jobs/s", "ours-lean", "raw", least=3)
    return result


def l5(bench: Bench, plan: Plan) -> Result:
    result = Result("L5", "Lean: idle worker, 10 ms a request: from the send to the start of the handler")

    def measure(name: str) -> dict[str, float]:
        values = bench.latencies(CONTENDERS[name], 30 if plan.quick else 100, latency_ms=10)
        return {"p50 ms": statistics.median(values)}

    take_turns(result, plan, ("ours-lean", "ours", "raw"), measure)
    result.judge_ratio("p50 of ours over boto3, at most 1", "p50 ms", "ours-lean", "ours", most=1)
    return result


LEAN_TARGETS: dict[str, Callable[[Bench, Plan], Result]] = {"L1": l1, "L2": l2, "L3": l3, "L4": l4, "L5": l5}
