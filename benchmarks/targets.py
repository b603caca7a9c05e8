"""The ten targets: what is measured, of whom, and what counts as reached."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from benchmarks.measure import Bench, Drain, FailedError
from benchmarks.peers import CONTENDERS

__all__ = [
    "DRAIN_MESSAGES",
    "TARGETS",
    "Plan",
    "Result",
    "Samples",
    "drain_values",
    "enqueue_in_turns",
    "take_turns",
]

TASK_QUEUES = ("celery", "dramatiq", "taskiq")


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    :param rounds: how often every contender of a target runs; they take turns.
    :param scale: the share of the full number of messages.
    :param present: the contenders that take part.
    :param quick: where time and not the number of messages decides, fewer contenders take part.
    """

    rounds: int
    scale: float
    present: tuple[str, ...]
    quick: bool = False

    def messages(self, full: int) -> int:
        return max(100, round(full * self.scale))


@dataclass
class Samples:
    """Numbers of one contender, one a round, by the name of what was measured."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, **values: float) -> None:
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        return statistics.median(self.values[name])


@dataclass
class Result:
    """What came of one target.

    :ivar samples: by contender.
    :ivar verdicts: (what was asked, what was found, whether that is enough); the last is ``None``
        if somebody it needs did not take part.
    """

    key: str
    title: str
    samples: dict[str, Samples] = field(default_factory=dict)
    verdicts: list[tuple[str, str, bool | None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def ratio(self, name: str, left: str, right: str) -> tuple[float, float, float] | None:
        """Median, least and greatest of ``left`` over ``right``, round by round."""
        if not all(name in self.samples.get(who, Samples()).values for who in (left, right)):
            return None
        pairs = zip(self.samples[left].values[name], self.samples[right].values[name], strict=False)
        ratios = [a / b for a, b in pairs if b]
        return (statistics.median(ratios), min(ratios), max(ratios)) if ratios else None

    def judge_ratio(
        self, asked: str, name: str, left: str, right: str, *, least: float = 0.0, most: float = 0.0
    ) -> None:
        found = self.ratio(name, left, right)
        if found is None:
            self.verdicts.append((asked, "not measured", None))
            return
        median, low, high = found
        enough = median >= least if least else median <= most
        self.verdicts.append((asked, f"{median:.2f} ({low:.2f} to {high:.2f})", enough))

    def judge(
        self, asked: str, found: float, unit: str, *, least: float = 0.0, most: float | None = None
    ) -> None:
        enough = found <= most if most is not None else found >= least
        self.verdicts.append((asked, f"{found:.4g} {unit}".strip(), enough))


def take_turns(
    result: Result, plan: Plan, names: tuple[str, ...], measure: Callable[[str], dict[str, float]]
) -> None:
    """Measure A B C, A B C, ...: a slow minute of the machine meets all of them."""
    failed: set[str] = set()
    for number in range(plan.rounds):
        for name in names:
            if name not in plan.present or name in failed:
                continue
            began = time.monotonic()
            try:
                found = measure(name)
            except FailedError as error:
                failed.add(name)
                result.notes.append(f"{name} failed: {str(error).strip().splitlines()[-1]}")
                print(f"  {result.key} {name}: {error}", file=sys.stderr, flush=True)
                continue
            result.samples.setdefault(name, Samples()).add(**found)
            shown = ", ".join(f"{key} {value:.4g}" for key, value in found.items())
            print(
                f"  {result.key} round {number + 1} {name}: {shown} [{time.monotonic() - began:.1f} s]",
                file=sys.stderr,
                flush=True,
            )


def drain_values(drain: Drain) -> dict[str, float]:
    return {
        "messages/s": drain.rate,
        "CPU s/1,000": drain.cpu,
        "RSS MB": drain.rss,
        "requests/message": drain.requests,
        "processes": drain.processes,
        "endpoint CPU": drain.server_share,
    }


# Enough messages for two to four seconds of each.
DRAIN_MESSAGES = {
    "ours": 6000,
    "ours-lean": 12000,
    "raw": 5000,
    "raw-tuned": 6000,
    "sqs-workers": 1000,
    "celery": 250,
    "dramatiq": 600,
    "taskiq": 1000,
    "pyqs": 900,
}


def t1(bench: Bench, plan: Plan) -> Result:
    result = Result("T1", "Drain, 10 ms a request, concurrency 16, one process")

    def measure(name: str) -> dict[str, float]:
        messages = plan.messages(DRAIN_MESSAGES[name])
        return drain_values(bench.drain(CONTENDERS[name], messages, concurrency=16, latency_ms=10))

    names = ("ours", "raw-tuned", "raw", "sqs-workers", *TASK_QUEUES, "pyqs")
    take_turns(result, plan, names, measure)
    result.judge_ratio("messages/s of sqs-workers, at least 4", "messages/s", "ours", "sqs-workers", least=4)
    rivals = [name for name in TASK_QUEUES if "messages/s" in result.samples.get(name, Samples()).values]
    if rivals:
        best = max(rivals, key=lambda name: result.samples[name].median("messages/s"))
        asked = f"messages/s of the best task queue ({best}), at least 3.5"
        result.judge_ratio(asked, "messages/s", "ours", best, least=3.5)
    result.judge_ratio("messages/s of raw-tuned, at least 0.9", "messages/s", "ours", "raw-tuned", least=0.9)
    return result


def t2(bench: Bench, plan: Plan) -> Result:
    result = Result("T2", "Drain, 0 ms a request, concurrency 16: CPU")

    def measure(name: str) -> dict[str, float]:
        messages = plan.messages(2 * DRAIN_MESSAGES[name])
        return drain_values(bench.drain(CONTENDERS[name], messages, concurrency=16, latency_ms=0))

    take_turns(result, plan, ("ours", "raw-tuned", "sqs-workers"), measure)
    result.judge_ratio("CPU of raw-tuned, at most 1.2", "CPU s/1,000", "ours", "raw-tuned", most=1.2)
    result.judge_ratio("CPU of sqs-workers, below 0.65", "CPU s/1,000", "ours", "sqs-workers", most=0.65)
    return result


def t3(bench: Bench, plan: Plan) -> Result:
    result = Result("T3", "Jobs of 50 ms, 10 ms a request, concurrency 32 (ideal: 640/s)")
    share = {"ours": 2400, "raw-tuned": 2400, "taskiq": 1000, "dramatiq": 300, "celery": 300, "pyqs": 1200}

    def measure(name: str) -> dict[str, float]:
        messages = plan.messages(share[name])
        drained = bench.drain(CONTENDERS[name], messages, concurrency=32, latency_ms=10, job_ms=50)
        return drain_values(drained)

    take_turns(result, plan, tuple(share), measure)
    if "ours" in result.samples:
        rate = result.samples["ours"].median("messages/s")
        result.judge("of the ideal 640/s, at least 0.93", rate / 640, "", least=0.93)
    return result


def enqueue_in_turns(
    bench: Bench, plan: Plan, result: Result, names: tuple[str, ...], role: str, count: int, ms: float
) -> None:
    def measure(name: str) -> dict[str, float]:
        queue, url = bench.new_queue()
        bench.endpoint.latency(ms)
        jobs = plan.messages(count)
        try:
            report = bench.enqueue(CONTENDERS[name], queue, role, count=jobs, warm=1)
        finally:
            bench.endpoint.latency(0)
        stats = bench.endpoint.queue_stats(queue)
        if stats["sent"] != jobs + 1:
            raise FailedError(f"{name} sent {stats['sent']} messages, not {jobs + 1}")
        bench.endpoint.client.delete_queue(QueueUrl=url)
        return {
            "jobs/s": jobs / report["seconds"],
            "CPU s/1,000": report["cpu"] / jobs * 1000,
            "requests/message": sum(stats["requests"].values()) / jobs,
        }

    take_turns(result, plan, names, measure)


def t4(bench: Bench, plan: Plan) -> Result:
    result = Result("T4", "Enqueue in batches, 10 ms a request")
    enqueue_in_turns(bench, plan, result, ("ours", "raw", "sqs-workers", "taskiq"), "enqueue_batch", 2000, 10)
    result.judge_ratio("jobs/s of sqs-workers, at least 3", "jobs/s", "ours", "sqs-workers", least=3)
    return result


def t5(bench: Bench, plan: Plan) -> Result:
    result = Result("T5", "Enqueue one by one, 0 ms a request: CPU")
    names = ("ours", "raw", "sqs-workers", *TASK_QUEUES, "pyqs")
    enqueue_in_turns(bench, plan, result, names, "enqueue", 1000, 0)
    result.judge_ratio("CPU of the raw client, at most 1.1", "CPU s/1,000", "ours", "raw", most=1.1)
    return result


def t6(bench: Bench, plan: Plan) -> Result:
    result = Result("T6", "Idle worker, 10 ms a request: from before the send to the start of the handler")

    def measure(name: str) -> dict[str, float]:
        jobs = 30 if plan.quick else 100
        values = sorted(bench.latencies(CONTENDERS[name], jobs, latency_ms=10))
        return {"p50 ms": statistics.median(values), "p99 ms": values[int(len(values) * 0.99) - 1]}

    peers = () if plan.quick else ("sqs-workers", *TASK_QUEUES, "pyqs")
    take_turns(result, plan, ("ours", "raw", *peers), measure)
    for name in ("p50 ms", "p99 ms"):
        if all(who in result.samples for who in ("ours", "raw")):
            differences = [
                ours - raw
                for ours, raw in zip(
                    result.samples["ours"].values[name], result.samples["raw"].values[name], strict=False
                )
            ]
            result.judge(f"{name} over raw's, at most 3", statistics.median(differences), "ms", most=3)
    return result


def t7(bench: Bench, plan: Plan) -> Result:
    slow_ms = 1500 if plan.quick else 5000
    result = Result("T7", f"Ten messages, one of {slow_ms / 1000:g} s: until the nine others are deleted")

    def measure(name: str) -> dict[str, float]:
        contender = CONTENDERS[name]
        return {
            "slow one first, ms": bench.nine_of_ten(contender, 0, slow_ms),
            "slow one last, ms": bench.nine_of_ten(contender, 9, slow_ms),
        }

    peers = () if plan.quick else TASK_QUEUES
    take_turns(result, plan, ("ours", "sqs-workers", *peers), measure)
    if "ours" in result.samples:
        worst = max(max(values) for values in result.samples["ours"].values.values())
        result.judge("the nine deleted within 200 ms", worst, "ms", most=200)
    return result


def t8(bench: Bench, plan: Plan) -> Result:
    jobs, visibility, job_ms = (10, 2, 800) if plan.quick else (40, 5, 2000)
    title = f"{jobs} jobs of {job_ms / 1000:g} s, visibility timeout {visibility} s, two workers of one slot"
    result = Result("T8", title)

    def measure(name: str) -> dict[str, float]:
        twice, left = bench.runs_per_job(
            CONTENDERS[name], jobs, visibility=visibility, job_ms=job_ms, workers=2
        )
        return {"run more than once": twice, "not deleted": left}

    once = replace(plan, rounds=min(plan.rounds, 2))
    take_turns(result, once, ("ours", "sqs-workers"), measure)
    if "ours" in result.samples:
        result.judge(
            "run more than once: none", sum(result.samples["ours"].values["run more than once"]), "", most=0
        )
        result.judge("left undone: none", sum(result.samples["ours"].values["not deleted"]), "", most=0)
    return result


def t9(bench: Bench, plan: Plan) -> Result:
    result = Result("T9", "Import")
    modules = {"ours": "sqs_workers", "sqs-workers": "sqs_workers", "raw": "boto3", "celery": "celery"}
    modules |= {"dramatiq": "dramatiq_sqs", "taskiq": "taskiq_aio_sqs", "pyqs": "pyqs"}

    def measure(name: str) -> dict[str, float]:
        return {"ms": min(bench.import_ms(CONTENDERS[name], modules[name]) for _ in range(3))}

    take_turns(result, plan, tuple(modules), measure)
    if "ours" in result.samples:
        result.judge("below 60 ms", result.samples["ours"].median("ms"), "ms", most=60)
    return result


def t10(bench: Bench, plan: Plan) -> Result:
    result = Result("T10", "Memory at concurrency 32")
    long_run = 6000 if plan.quick else 100_000

    def measure(name: str) -> dict[str, float]:
        drained = bench.drain(CONTENDERS[name], plan.messages(5000), concurrency=32, latency_ms=10)
        return {"RSS MB": drained.rss}

    take_turns(result, plan, ("ours", "raw", "sqs-workers"), measure)
    result.judge_ratio("RSS of raw, below 1.3", "RSS MB", "ours", "raw", most=1.3)
    if "ours" in plan.present and "ours" in result.samples:
        drained = bench.drain(CONTENDERS["ours"], long_run, concurrency=32, latency_ms=0)
        early = [rss for done, rss in drained.rss_curve if 0.15 <= done / long_run <= 0.25]
        late = [rss for done, rss in drained.rss_curve if done / long_run >= 0.9]
        growth = statistics.median(late) - statistics.median(early)
        result.judge(
            f"growth from a fifth to the end of {long_run:,} messages, at most 3 MB", growth, "MB", most=3
        )
    return result


TARGETS: dict[str, Callable[[Bench, Plan], Result]] = {
    "T1": t1,
    "T2": t2,
    "T3": t3,
    "T4": t4,
    "T5": t5,
    "T6": t6,
    "T7": t7,
    "T8": t8,
    "T9": t9,
    "T10": t10,
}
