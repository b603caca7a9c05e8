"""Whether the event source mapping listens to what the function answers.

Without ``ReportBatchItemFailures`` Lambda takes any answer for success and deletes the whole batch, the
messages that failed included. Nothing in a call says how the mapping is set.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from sqs_workers.aws.service_clients import ServiceClient, region_of
from sqs_workers.clock import Clock
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.transport.errors import error_code

__all__ = ["REPORT_ITEM_FAILURES", "MappingCheck", "MappingWatch"]

logger = logging.getLogger(__name__)

REPORT_ITEM_FAILURES = "ReportBatchItemFailures"
ENOUGH_FAILURES = 5
PATIENCE_SECONDS = 900.0
"""Lambda's longest timeout: a visibility timeout is not below that of the function, and mostly not far above."""

_HOW = "aws lambda update-event-source-mapping --uuid UUID --function-response-types ReportBatchItemFailures"


class MappingWatch:
    """Says once that failures which were reported do not come back.

    :param clock: for the time that they are given.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._reported = 0
        self._since = 0.0
        self._done = False

    def see(self, receive_counts: list[int], queue_name: str) -> None:
        """Look at the receive counts of a batch that came in."""
        with self._lock:
            if self._done:
                return
            if any(count > 1 for count in receive_counts):
                self._done = True
                return
            if self._reported < ENOUGH_FAILURES:
                return
            if self._clock.monotonic() - self._since < PATIENCE_SECONDS:
                return
            self._done = True
            reported = self._reported
        logger.warning(
            "%d failed messages of queue %s were reported to Lambda in %.0f minutes, and none was seen again: "
            "%s seems to be off in the event source mapping, and Lambda deletes what failed. Turn it on: %s",
            reported,
            queue_name,
            PATIENCE_SECONDS / 60,
            REPORT_ITEM_FAILURES,
            _HOW,
            extra={"queue_name": queue_name},
        )

    def reported(self, count: int) -> None:
        """So many failures are in an answer."""
        with self._lock:
            if not self._reported:
                self._since = self._clock.monotonic()
            self._reported += count


class MappingCheck:
    """Asks Lambda for the mapping, before the first failure is reported.

    Needs the permission ``lambda:ListEventSourceMappings``.
    """

    def __init__(self, client: Any = None) -> None:
        self._client = client
        self._sound = False

    def require(self, function_arn: str, queue_arn: str) -> None:
        """Refuse to answer where the answer would lose messages.

        :raises ConfigurationError: the mapping does not report item failures: the whole batch comes back.
        """
        if self._sound:
            return
        client = ServiceClient("lambda", client=self._client, region=region_of(function_arn)).get()
        try:
            answer = client.list_event_source_mappings(FunctionName=function_arn, EventSourceArn=queue_arn)
        except Exception as error:  # noqa: BLE001 - the check must not fail what it checks
            logger.warning("The event source mapping of %s cannot be read: %s", queue_arn, error_code(error))
            return
        mappings = answer.get("EventSourceMappings") or []
        off = [m for m in mappings if REPORT_ITEM_FAILURES not in (m.get("FunctionResponseTypes") or ())]
        if off:
            raise ConfigurationError(
                f"{REPORT_ITEM_FAILURES} is off in the event source mapping {off[0].get('UUID')} of "
                f"{queue_arn}: Lambda would delete the messages that failed, so the whole batch is given back. "
                f"Turn it on: {_HOW}"
            )
        self._sound = bool(mappings)
