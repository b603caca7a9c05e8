"""Dead letters, handled with care: found, looked at, sent back under control, repaired, kept, discarded.

::

    from sqs_workers.redrive import DeadLetters, Where

    letters = DeadLetters.of(sqs.queue("emails_dead"))
    print(letters.sample().groups)
    report = letters.redrive(first=5, wait=60, rate=10, where=Where(job="send_email"))

On the command line: ``sqs-workers dlq``.
"""

from __future__ import annotations

from sqs_workers.redrive.audit import AuditLog
from sqs_workers.redrive.dead_letters import DeadLetters, Discarded, Sample
from sqs_workers.redrive.finding import DeadLetterQueueState, SourceQueue, find_dead_letter_queues
from sqs_workers.redrive.letters import Letter, Where, masked, parse_where
from sqs_workers.redrive.lines import ImportReport
from sqs_workers.redrive.moving import MoveTask
from sqs_workers.redrive.redriving import Plan, RedriveReport
from sqs_workers.redrive.sending import Refused

__all__ = [
    "AuditLog",
    "DeadLetterQueueState",
    "DeadLetters",
    "Discarded",
    "ImportReport",
    "Letter",
    "MoveTask",
    "Plan",
    "RedriveReport",
    "Refused",
    "Sample",
    "SourceQueue",
    "Where",
    "find_dead_letter_queues",
    "masked",
    "parse_where",
]
