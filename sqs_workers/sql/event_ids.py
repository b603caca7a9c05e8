"""Which id makes two deliveries the same event.

====================  ==================================  ========================================
id                    the same for                        use it when
====================  ==================================  ========================================
one of the payload    every delivery, resend, redrive     the sender gives events a stable id
``OutboxId``          redeliveries, and what a relay      the job comes through an outbox
                      sends twice
``StableId``          redeliveries, and the messages      the job is delayed beyond 15 minutes, or
                      that carry a delayed job on         comes from a schedule
message id of SQS     redeliveries of one message alone   nothing else is there: a job that was
                                                          sent twice runs twice
====================  ==================================  ========================================

A dead letter sent back as a copy has a new message id; its ``OutboxId`` stays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from sqs_workers.delays import STABLE_ID
from sqs_workers.exceptions import ConfigurationError
from sqs_workers.job import Job, current_job

__all__ = [
    "OUTBOX_ID",
    "EventIdSource",
    "event_id_of_job",
    "make_event_id",
    "payload_of_call",
    "without_first_parameter",
]

OUTBOX_ID = "OutboxId"
"""Message attribute that carries the stable id of an outbox row."""

EventIdSource = str | Callable[[Mapping[str, Any]], str] | None


def event_id_of_job(job: Job) -> str:
    """The stable id of the outbox, or of a delayed job, if the message has one, else the id that SQS gave it."""
    message = job.message
    return message.string_attribute(OUTBOX_ID) or message.string_attribute(STABLE_ID) or job.message_id


def make_event_id(source: EventIdSource, arguments: Mapping[str, Any]) -> str:
    """The event id of a call.

    :param source: name of the argument that is the id, a function of the arguments, or ``None`` for
        :func:`event_id_of_job` of the running job.
    :raises ConfigurationError: there is no such argument, or no running job.
    """
    if source is None:
        job = current_job()
        if job is None:
            raise ConfigurationError(
                "no job is running here that could give the event id: give event_id=, "
                "the name of an argument or a function of the arguments"
            )
        return event_id_of_job(job)
    if callable(source):
        return source(arguments)
    if source not in arguments:
        raise ConfigurationError(f"event_id={source!r} is no argument of the handler")
    return str(arguments[source])


def payload_of_call(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a call with these arguments is compared by: the arguments of the running job, if it was made with
    them, else the arguments themselves.

    A job's own arguments do not depend on the version of the function: another version may take fewer of
    them, and would otherwise see another payload in the same message.
    """
    job = current_job()
    if job is not None and job.kwargs:
        absent = object()
        if all(
            job.kwargs.get(name, absent) is value or value is job.context for name, value in arguments.items()
        ):
            return job.kwargs
    return dict(arguments)


def without_first_parameter(function: Callable[..., Any]) -> inspect.Signature:
    """Signature of a handler as its callers see it: without the connection.

    :raises ConfigurationError: it has no positional parameter.
    """
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise ConfigurationError(
            f"{getattr(function, '__qualname__', function)!s} must take the connection as its first argument"
        )
    return signature.replace(parameters=parameters[1:])
