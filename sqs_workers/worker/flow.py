"""How jobs of a queue end: how many a second, and what share of them fails, over the last minute."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqs_workers.messages import Message

__all__ = ["Flow", "oldest_age"]

WINDOW = 60.0
_APART = 1.0


class Flow:
    """Keeps what the counts were when somebody asked, and compares. Costs nothing while nobody asks.

    The rates are those since a minute ago, if somebody has asked often enough, else since the last time
    before that, or since the start.

    :param now: monotonic time of the start.
    """

    def __init__(self, now: float) -> None:
        self._samples: deque[tuple[float, int, int]] = deque([(now, 0, 0)])

    def rates(self, succeeded: int, failed: int, now: float) -> tuple[float, float]:
        """Jobs that succeeded a second, and the share of those that failed among all that ended (0 to 1).

        :param succeeded: jobs that have succeeded since the start; ``failed`` likewise.
        """
        samples = self._samples
        while len(samples) > 1 and samples[1][0] <= now - WINDOW:
            samples.popleft()
        since, succeeded_then, failed_then = samples[0]
        if now - samples[-1][0] >= _APART:
            samples.append((now, succeeded, failed))
        good, bad = succeeded - succeeded_then, failed - failed_then
        rate = good / (now - since) if now > since else 0.0
        return rate, bad / (good + bad) if good + bad else 0.0


def oldest_age(messages: Iterable[Message], now: float) -> float | None:
    """Seconds since the oldest of these messages was sent; ``None`` if none says when.

    :param now: Unix time.
    """
    sent = [int(text) for message in messages if (text := message.attributes.get("SentTimestamp"))]
    return max(0.0, now - min(sent) / 1000) if sent else None
