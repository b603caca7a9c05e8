"""``@queue.periodic(...)``: jobs that come again and again, declared beside their processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from sqs_workers.async_task import AsyncTask, JobOptions
from sqs_workers.cron import Cron
from sqs_workers.delays import STABLE_ID
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.messages import string_attribute
from sqs_workers.periodic import CatchUp, Periodic
from sqs_workers.processors import Processor, overrides
from sqs_workers.signatures import is_async_callable

if TYPE_CHECKING:
    from sqs_workers.messages import OutgoingMessage

__all__ = ["DeclaresPeriodic", "refuse_sync_wrapping"]

TaskT = TypeVar("TaskT", bound=AsyncTask[..., Any])


class DeclaresPeriodic:
    """The part of a queue that knows its schedules."""

    if TYPE_CHECKING:
        env: Any
        name: str

        @property
        def is_fifo(self) -> bool: ...
        def job_message(
            self, job_name: str, job_kwargs: dict[str, Any], options: JobOptions = ...
        ) -> OutgoingMessage: ...

    @property
    def periodic_jobs(self) -> dict[str, Periodic]:
        """The schedules by name."""
        declared: dict[str, Periodic] = self.__dict__.setdefault("_periodic_jobs", {})
        return declared

    def periodic(
        self,
        *,
        cron: str | None = None,
        every: float | timedelta | None = None,
        timezone: str = "UTC",
        args: Mapping[str, Any] | None = None,
        name: str | None = None,
        catch_up: CatchUp = "one",
        group_id: str | None = None,
        codec: str | None = None,
    ) -> Callable[[TaskT], TaskT]:
        """Decorator above ``@queue.processor``: its job comes again and again.

        ::

            @reports.periodic(cron="0 6 * * MON-FRI", timezone="Europe/Berlin", args={"kind": "daily"})
            @reports.processor("report")
            def report(kind): ...

        It only declares. ``sqs-workers schedules sync`` hands the schedules to EventBridge Scheduler, or a
        :class:`~sqs_workers.schedules.Beat` sends their jobs.

        :param cron: five fields, see :mod:`sqs_workers.cron`.
        :param every: or how often: whole seconds, or a ``timedelta``.
        :param timezone: zone of the cron expression.
        :param args: arguments of the job.
        :param name: of the schedule, by default queue and job; needed if a job has several.
        :param catch_up: what a beat does about slots that passed while none ran: ``none``, ``one`` (the last)
            or ``all``.
        :param group_id: message group, on FIFO queues.
        :param codec: name of the codec.
        :raises ConfigurationError: a value that cannot work, or arguments that do not fit the function.
        """
        seconds = _whole_seconds(every)

        def declare(task: TaskT) -> TaskT:
            if not isinstance(task, AsyncTask):
                raise ConfigurationError(
                    f"@periodic of queue {self.name!r} stands above @processor(...), which makes the job"
                )
            chosen = name or f"{self.name}.{task.job_name}"
            if chosen in self.periodic_jobs:
                raise ConfigurationError(f"queue {self.name!r} has a schedule {chosen!r} already: give name=")
            self.periodic_jobs[chosen] = Periodic(
                chosen,
                self.name,
                task.job_name,
                _bound(task, args, chosen),
                None if cron is None else Cron(cron),
                seconds,
                timezone,
                catch_up,
                group_id,
                codec,
            )
            return task

        return declare

    def periodic_message(
        self, periodic: Periodic, stable_id: str, *, inline: bool = False
    ) -> OutgoingMessage:
        """The message of one slot, checked and not sent.

        :param stable_id: of the slot; also the deduplication id on a FIFO queue.
        :param inline: keep the body in the message: one that is sent again and again must not point to an object
            that goes with the first.
        """
        options = JobOptions(
            periodic.codec, None, stable_id if self.is_fifo else None, periodic.group_id, None, inline
        )
        message = self.job_message(periodic.job_name, dict(periodic.kwargs), options)
        return replace(message, attributes={**message.attributes, STABLE_ID: string_attribute(stable_id)})


def _whole_seconds(every: float | timedelta | None) -> Any:
    """Seconds as an integer; what is none of a kind stays, to be refused with the rest."""
    if isinstance(every, timedelta):
        every = every.total_seconds()
    return int(every) if isinstance(every, float) and every.is_integer() else every


def _bound(task: AsyncTask[..., Any], args: Any, name: str) -> dict[str, Any]:
    if args is not None and not isinstance(args, Mapping):
        raise ConfigurationError(
            f"args= of schedule {name!r} are the job's arguments by name, not {args!r:.80}"
        )
    try:
        return task._bind((), dict(args or {}))
    except TypeError as error:
        raise ConfigurationError(f"args= of schedule {name!r} do not fit the job: {error}") from error


def refuse_sync_wrapping(processor: Any, where: str) -> None:
    """An ``async def`` function inside of a plain ``process`` would never be awaited.

    :raises ConfigurationError: the processor is such a one.
    """
    if not isinstance(processor, Processor) or not processor.is_async:
        return
    own = overrides(type(processor))
    if own.process and not own.aprocess and not is_async_callable(type(processor).process):
        raise ConfigurationError(
            f"{where} is async and {type(processor).__qualname__}.process() is not: give the class an "
            "'async def aprocess(self, job_kwargs, job_context)'"
        )
