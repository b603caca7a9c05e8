"""What is declared in code and what EventBridge Scheduler has: compared, and made the same."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqs_workers.exceptions import ConfigurationError
from sqs_workers.periodic import slot_id
from sqs_workers.schedules.eventbridge import EventBridgeScheduler, ScheduleDefinition, send_message_input

if TYPE_CHECKING:
    from sqs_workers.periodic import Periodic
    from sqs_workers.sqs_env import SQSEnv

__all__ = ["ScheduleChange", "definition_of", "name_at_service", "plan_changes", "sync_schedules"]

_PREFIX = "periodic."
MAX_EXPRESSION = 256
"""https://docs.aws.amazon.com/scheduler/latest/APIReference/API_CreateSchedule.html"""
_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"))


@dataclass(frozen=True)
class ScheduleChange:
    """What is to be done, or was done, about one schedule.

    :ivar kind: ``create``, ``update``, ``remove`` or ``keep``.
    :ivar name: at the service.
    :ivar differences: what ``update`` changes.
    """

    kind: Literal["create", "update", "remove", "keep"]
    name: str
    wanted: ScheduleDefinition | None = None
    found: ScheduleDefinition | None = None
    differences: tuple[str, ...] = ()


def sync_schedules(
    env: SQSEnv,
    scheduler: EventBridgeScheduler | None = None,
    *,
    prune: bool = False,
    dry_run: bool = False,
) -> list[ScheduleChange]:
    """Make the schedules of the service those that ``@queue.periodic(...)`` declares.

    :param scheduler: by default that of the environment.
    :param prune: remove schedules of this environment that are declared no more.
    :param dry_run: change nothing.
    :returns: what was done, or would be; ``remove`` appears with ``prune`` alone.
    :raises ConfigurationError: there is no scheduler, or a schedule that the service cannot keep.
    """
    if scheduler is None:
        scheduler = env.scheduler  # type: ignore[assignment]
    if not isinstance(scheduler, EventBridgeScheduler):
        raise ConfigurationError(
            "schedules are kept by EventBridge Scheduler: give SQSEnv(scheduler=EventBridgeScheduler(...))"
        )
    changes = [change for change in plan_changes(env, scheduler) if prune or change.kind != "remove"]
    if not dry_run:
        for change in changes:
            _apply(scheduler, change)
    return changes


def plan_changes(env: SQSEnv, scheduler: EventBridgeScheduler) -> list[ScheduleChange]:
    """What differs between code and service; nothing is changed."""
    declared: dict[str, ScheduleDefinition] = {}
    for queue in env.queues.values():
        for periodic in getattr(queue, "periodic_jobs", {}).values():
            declared[name_at_service(env, periodic)] = definition_of(queue, periodic, scheduler)
    changes = []
    for name, wanted in declared.items():
        found = scheduler.find(name)
        if found is None:
            changes.append(ScheduleChange("create", name, wanted))
        else:
            differences = tuple(wanted.differences(found))
            changes.append(
                ScheduleChange("update" if differences else "keep", name, wanted, found, differences)
            )
    gone = sorted(set(scheduler.names(_PREFIX + env.queue_prefix)) - declared.keys())
    changes += [ScheduleChange("remove", name, found=scheduler.find(name)) for name in gone]
    return changes


def name_at_service(env: SQSEnv, periodic: Periodic) -> str:
    """Name of a schedule at the service: with the environment's prefix.

    :raises ConfigurationError: it has more than 64 characters.
    """
    name = f"{_PREFIX}{env.queue_prefix}{periodic.name}"
    if len(name) > 64:
        raise ConfigurationError(
            f"schedule {periodic.name!r} would be called {name!r} at EventBridge Scheduler, which has more than "
            "64 characters: give it a shorter name="
        )
    return name


def definition_of(queue: Any, periodic: Periodic, scheduler: EventBridgeScheduler) -> ScheduleDefinition:
    """A declared schedule as the service should have it.

    :raises ConfigurationError: it is more often than once a minute, or its expression is too long.
    """
    mark = f"slot-{uuid.uuid4()}"
    message = queue.periodic_message(periodic, slot_id(periodic.name, mark), inline=True)
    return ScheduleDefinition(
        _expression(periodic),
        periodic.timezone,
        send_message_input(queue.url, message, time_mark=mark),
        scheduler.role_arn,
        scheduler.target_arn,
        description=f"{periodic.queue_name}.{periodic.job_name}, declared in code",
    )


def _expression(periodic: Periodic) -> str:
    if periodic.cron is not None:
        expression = periodic.cron.for_eventbridge()
        if len(expression) > MAX_EXPRESSION:
            raise ConfigurationError(
                f"schedule {periodic.name!r} would have an expression of {len(expression)} characters at "
                f"EventBridge Scheduler, which takes {MAX_EXPRESSION}: declare several, or let a Beat send it"
            )
        return expression
    every = periodic.every or 0
    for seconds, unit in _UNITS:
        if every % seconds == 0:
            count = every // seconds
            return f"rate({count} {unit}{'' if count == 1 else 's'})"
    raise ConfigurationError(
        f"schedule {periodic.name!r} is due every {every} s; EventBridge Scheduler counts whole minutes. Let a "
        "Beat send it"
    )


def _apply(scheduler: EventBridgeScheduler, change: ScheduleChange) -> None:
    if change.kind == "remove":
        scheduler.remove(change.name)
    elif change.wanted is not None and change.kind != "keep":
        (scheduler.create if change.kind == "create" else scheduler.update)(change.name, change.wanted)
