"""The section ``retry`` of a task as a backoff policy."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqs_workers.app.spec import Retry
    from sqs_workers.messages import Message

__all__ = ["TaskBackoff"]

# Beyond this many doublings every delay is above SQS's 12 hours.
_MAX_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class TaskBackoff:
    """Seconds until the next attempt, in whole seconds as SQS counts them.

    :param minimum: before the second attempt; doubled with each further one if ``grows``.
    :param jitter: ``none``, ``full`` or ``equal``.
    """

    minimum: float
    maximum: float
    jitter: str
    grows: bool = True

    @classmethod
    def of(cls, retry: Retry) -> TaskBackoff:
        """The policy that a file asks for."""
        if retry.type == "constant":
            return cls(retry.min_delay_s, retry.min_delay_s, "none", grows=False)
        return cls(retry.min_delay_s, retry.max_delay_s, retry.jitter)

    def get_visibility_timeout(self, message: Message) -> float:
        """Seconds for which the message stays hidden after this failure."""
        delay = self.minimum
        if self.grows:
            doublings = min(max(message.receive_count - 1, 0), _MAX_DOUBLINGS)
            delay = min((self.minimum or 1.0) * 2**doublings, self.maximum)
        if self.jitter == "full":
            return random.uniform(min(self.minimum, delay), delay)  # noqa: S311
        if self.jitter == "equal":
            return random.uniform(max(delay / 2, min(self.minimum, delay)), delay)  # noqa: S311
        return delay
