"""EventBridge Scheduler: messages at a time of day, kept by AWS.

A schedule calls ``SendMessage`` itself (a "universal target"), so that the message has the body and the attributes
that the queue would have sent.
https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from sqs_workers.exceptions import ConfigurationError, SendError
from sqs_workers.transport.errors import error_code

if TYPE_CHECKING:
    from sqs_workers.messages import OutgoingMessage

__all__ = ["SCHEDULED_TIME", "EventBridgeScheduler", "ScheduleDefinition"]

SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"
"""What the service replaces by the time of the slot.
https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-schedule-context-attributes.html"""

_ONE_TIME = "job-"


@dataclass(frozen=True)
class ScheduleDefinition:
    """A schedule as it should be, or is, at the service.

    :ivar expression: ``cron(...)``, ``rate(...)`` or ``at(...)``.
    :ivar input: parameters of ``SendMessage``, as JSON.
    """

    expression: str
    timezone: str
    input: str
    role_arn: str
    target_arn: str
    enabled: bool = True
    description: str = ""

    def differences(self, other: ScheduleDefinition) -> list[str]:
        """Names of what ``other`` has otherwise."""
        names = ("expression", "timezone", "role_arn", "target_arn", "enabled")
        found = [name for name in names if getattr(self, name) != getattr(other, name)]
        return found if _same_json(self.input, other.input) else [*found, "input"]


class EventBridgeScheduler:
    """Schedules of one group; for ``SQSEnv(scheduler=...)`` and :func:`~sqs_workers.schedules.sync_schedules`.

    :param group: schedule group, which exists. Give each application its own.
    :param role_arn: role that the service takes on: it trusts ``scheduler.amazonaws.com`` and allows
        ``sqs:SendMessage`` on the queues.
    :param client: use this boto3 client of ``scheduler``; by default one is made at first use.
    :param dead_letter_arn: queue for what the service could not send within a day.
    :raises ConfigurationError: the role is no ARN.
    """

    def __init__(
        self,
        group: str = "default",
        *,
        role_arn: str,
        client: Any = None,
        dead_letter_arn: str | None = None,
    ) -> None:
        parts = role_arn.split(":")
        if len(parts) < 6 or parts[0] != "arn" or parts[2] != "iam":
            raise ConfigurationError(
                f"role_arn must be the ARN of a role, arn:aws:iam::ACCOUNT:role/NAME, not {role_arn!r}"
            )
        self.group = group
        self.role_arn = role_arn
        self.target_arn = f"arn:{parts[1]}:scheduler:::aws-sdk:sqs:sendMessage"
        self.dead_letter_arn = dead_letter_arn
        self._given_client = client
        self._client: tuple[int, Any] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"EventBridgeScheduler({self.group!r})"

    @property
    def client(self) -> Any:
        """The boto3 client of ``scheduler``; a new one after a fork."""
        if self._given_client is not None:
            return self._given_client
        known = self._client
        if known is None or known[0] != os.getpid():
            import boto3

            with self._lock:
                known = self._client
                if known is None or known[0] != os.getpid():
                    known = self._client = os.getpid(), boto3.client("scheduler")
        return known[1]

    # One message at one time

    def schedule(self, queue_url: str, message: OutgoingMessage, *, due: int, job_id: str) -> str:
        """Have ``message`` sent at ``due`` by a schedule that deletes itself; returns what cancels it.

        The service is up to a minute late. For a FIFO queue, where nothing can be held back afterwards, the time
        is rounded up to the minute.

        :param due: seconds since the Unix epoch.
        :param job_id: stable id of the job: asking twice makes one schedule.
        :raises SendError: the service did not take it.
        """
        if queue_url.endswith(".fifo"):
            due = -(-due // 60) * 60
        name = f"{_ONE_TIME}{job_id}"[:64]
        moment = datetime.fromtimestamp(due, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        definition = ScheduleDefinition(
            f"at({moment})", "UTC", send_message_input(queue_url, message), self.role_arn, self.target_arn
        )
        try:
            self.client.create_schedule(
                **self._request(name, definition), ActionAfterCompletion="DELETE", ClientToken=name
            )
        except Exception as error:
            if error_code(error) == "ConflictException":
                # It was made before, and the answer was lost.
                return name
            raise SendError(
                f"job {message.job_name!r} for {queue_url} could not be scheduled in group {self.group!r}: "
                f"{error_code(error)}: {error}{self._hint(error)}"
            ) from error
        return name

    def cancel(self, schedule_id: str) -> bool:
        """Forget a message that was not sent yet; whether there was one.

        :param schedule_id: what ``task.options(delay=...).delay(...)`` returned.
        """
        return self.remove(schedule_id)

    # Schedules that stay

    def names(self, prefix: str) -> Iterator[str]:
        """Names of the schedules of the group that begin with ``prefix``."""
        pages = self.client.get_paginator("list_schedules")
        for page in pages.paginate(GroupName=self.group, NamePrefix=prefix):
            for schedule in page.get("Schedules", ()):
                yield schedule["Name"]

    def find(self, name: str) -> ScheduleDefinition | None:
        """A schedule as it is at the service."""
        try:
            answer = self.client.get_schedule(Name=name, GroupName=self.group)
        except Exception as error:
            if error_code(error) == "ResourceNotFoundException":
                return None
            raise
        target = answer.get("Target") or {}
        return ScheduleDefinition(
            answer.get("ScheduleExpression", ""),
            answer.get("ScheduleExpressionTimezone") or "UTC",
            target.get("Input", ""),
            target.get("RoleArn", ""),
            target.get("Arn", ""),
            answer.get("State", "ENABLED") == "ENABLED",
            answer.get("Description", ""),
        )

    def create(self, name: str, definition: ScheduleDefinition) -> None:
        """Make a schedule.

        :raises ConfigurationError: the schedule group does not exist.
        """
        try:
            self.client.create_schedule(**self._request(name, definition))
        except Exception as error:
            hint = self._hint(error)
            if hint:
                raise ConfigurationError(
                    f"schedule {name!r} cannot be made in group {self.group!r}{hint}"
                ) from error
            raise

    def update(self, name: str, definition: ScheduleDefinition) -> None:
        """Replace a schedule."""
        self.client.update_schedule(**self._request(name, definition))

    def remove(self, name: str) -> bool:
        """Delete a schedule; whether there was one."""
        try:
            self.client.delete_schedule(Name=name, GroupName=self.group)
        except Exception as error:
            if error_code(error) == "ResourceNotFoundException":
                return False
            raise
        return True

    def _hint(self, error: Exception) -> str:
        if error_code(error) != "ResourceNotFoundException":
            return ""
        return f". Make the group: aws scheduler create-schedule-group --name {self.group}"

    def _request(self, name: str, definition: ScheduleDefinition) -> dict[str, Any]:
        target: dict[str, Any] = {
            "Arn": definition.target_arn,
            "RoleArn": definition.role_arn,
            "Input": definition.input,
        }
        if self.dead_letter_arn is not None:
            target["DeadLetterConfig"] = {"Arn": self.dead_letter_arn}
        request = {
            "Name": name,
            "GroupName": self.group,
            "ScheduleExpression": definition.expression,
            "ScheduleExpressionTimezone": definition.timezone,
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "State": "ENABLED" if definition.enabled else "DISABLED",
            "Target": target,
        }
        if definition.description:
            request["Description"] = definition.description
        return request


def send_message_input(queue_url: str, message: OutgoingMessage, *, time_mark: str | None = None) -> str:
    """Parameters of ``SendMessage`` as the service wants them.

    :param time_mark: text in the message that stands for the time of the slot.
    """
    request = {name: value for name, value in message.to_request().items() if name != "DelaySeconds"}
    if message.attributes:
        request["MessageAttributes"] = {
            name: {
                key: base64.b64encode(value).decode() if isinstance(value, (bytes, bytearray)) else value
                for key, value in attribute.items()
            }
            for name, attribute in message.attributes.items()
        }
    # What the service would replace begins with "<"; in the data of a job it is data.
    text = json.dumps({"QueueUrl": queue_url, **request}).replace("<", "\\u003c")
    return text if time_mark is None else text.replace(time_mark, SCHEDULED_TIME)


def _same_json(one: str, other: str) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return one == other
