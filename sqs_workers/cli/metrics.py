"""What CloudWatch knows of queues and SQS does not say.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqs_workers.cli.sqs import Account

__all__ = ["QueueFlow", "queue_flow"]

_MINUTES = 10
_PERIOD = 60
_KEEP_SECONDS = 30.0
"""CloudWatch has one value a minute; asking more often would only cost."""


@dataclass(frozen=True, slots=True)
class QueueFlow:
    """How messages go through a queue, as far as it is known; see ``QueueState``."""

    oldest_age: float | None = None
    done_per_second: float | None = None
    again: float | None = None


def queue_flow(account: Account) -> Callable[[str], QueueFlow]:
    """Asks CloudWatch about a queue by its name, at most every half minute."""
    watch = account.client_of("cloudwatch")
    known: dict[str, tuple[float, QueueFlow]] = {}

    def ask(name: str) -> QueueFlow:
        at, flow = known.get(name, (0.0, None))
        if flow is None or time.monotonic() - at > _KEEP_SECONDS:
            flow = _ask(watch, name)
            known[name] = time.monotonic(), flow
        return flow

    return ask


def _ask(watch: Any, name: str) -> QueueFlow:
    ages = _values(watch, name, "ApproximateAgeOfOldestMessage", "Maximum")
    deleted = sum(_values(watch, name, "NumberOfMessagesDeleted", "Sum"))
    received = sum(_values(watch, name, "NumberOfMessagesReceived", "Sum"))
    return QueueFlow(
        ages[-1] if ages else None,
        deleted / (_MINUTES * _PERIOD) if received else None,
        max(0.0, 1 - deleted / received) if received else None,
    )


def _values(watch: Any, name: str, metric: str, statistic: str) -> list[float]:
    now = datetime.datetime.now(datetime.timezone.utc)
    try:
        answer = watch.get_metric_statistics(
            Namespace="AWS/SQS",
            MetricName=metric,
            Dimensions=[{"Name": "QueueName", "Value": name}],
            StartTime=now - datetime.timedelta(minutes=_MINUTES),
            EndTime=now,
            Period=_PERIOD,
            Statistics=[statistic],
        )
    except Exception:  # noqa: BLE001 - not permitted, or no CloudWatch here: not known
        return []
    points = sorted(answer.get("Datapoints") or (), key=lambda point: point["Timestamp"])
    return [float(point[statistic]) for point in points]
