"""What CloudWatch says of queues, from recorded answers."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from sqs_workers.cli import metrics
from sqs_workers.cli.metrics import QueueFlow, queue_flow
from sqs_workers.cli.sqs import Account

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


class Watch:
    def __init__(self, **values: list[float] | Exception) -> None:
        self.values = values
        self.calls = 0

    def get_metric_statistics(self, **request: Any) -> Any:
        self.calls += 1
        assert request["Dimensions"] == [{"Name": "QueueName", "Value": "events"}]
        values = self.values.get(request["MetricName"], [])
        if isinstance(values, Exception):
            raise values
        points = [
            {"Timestamp": NOW + datetime.timedelta(minutes=minute), request["Statistics"][0]: value}
            for minute, value in enumerate(values)
        ]
        return {"Datapoints": points[::-1]}


def asked(monkeypatch: pytest.MonkeyPatch, watch: Watch) -> Any:
    monkeypatch.setattr(Account, "client_of", lambda *_: watch)
    return queue_flow(Account(None, None, None))


def test_the_flow_of_a_queue_is_what_was_deleted_and_what_was_received_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(
        ApproximateAgeOfOldestMessage=[5.0, 9.0],
        NumberOfMessagesDeleted=[300.0, 600.0],
        NumberOfMessagesReceived=[600.0, 600.0],
    )
    assert asked(monkeypatch, watch)("events") == QueueFlow(9.0, 1.5, 0.25)


def test_cloudwatch_is_asked_twice_a_minute_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    ask = asked(monkeypatch, watch)
    for _ in range(5):
        assert ask("events") == QueueFlow()
    assert watch.calls == 3
    monkeypatch.setattr(metrics.time, "monotonic", lambda: 1e12)
    ask("events")
    assert watch.calls == 6


def test_what_cloudwatch_refuses_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(ApproximateAgeOfOldestMessage=RuntimeError("denied"))
    assert asked(monkeypatch, watch)("events") == QueueFlow()
