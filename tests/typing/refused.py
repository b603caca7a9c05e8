"""User code that type checkers refuse, line by line.

A line ends with ``# E: code``, mypy's code of the error expected there; pyright has
to report an error on the same lines. Checked, never run.
"""

# pyright: strict

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqs_workers import SQSEnv
from sqs_workers.aws import OutgoingEvent, Topic, lambda_handler
from sqs_workers.envelopes import IncomingEvent

env = SQSEnv(codec="json")
queue = env.queue("emails")
events = queue.events()


@dataclass
class OrderPaid:
    order_id: int


@dataclass
class OrderSent:
    order_id: int


def a_processor_gets_the_model_that_it_asked_for() -> None:
    def paid(event: IncomingEvent[OrderPaid]) -> None: ...
    def paid_once(tx: Any, event: IncomingEvent[OrderPaid]) -> None: ...

    events.on("order.paid", model=OrderPaid)(paid)
    events.on("order.paid", model=OrderSent)(paid)  # E: arg-type
    events.on("order.paid", model=OrderPaid)(paid_once)  # E: arg-type
    events.on("order.paid", model=OrderPaid, sources="shop")(paid)  # E: call-overload
    queue.events(unmatched="drop")  # E: arg-type


def events_are_checked() -> None:
    OutgoingEvent("order.paid", {})  # E: call-arg
    Topic("arn").publish("order.paid")  # E: arg-type
    lambda_handler(queue)([])  # E: arg-type
    Topic("arn").task(send_email).delay(to="x")  # E: call-arg


@queue.processor("send_email")
def send_email(to: str, subject: str, body: str = "") -> int:
    return len(to) + len(subject) + len(body)


def delay_checks_its_arguments() -> None:
    send_email.delay()  # E: call-arg
    send_email.delay(to="x")  # E: call-arg
    send_email.delay(to="x", subject=1)  # E: arg-type
    send_email.delay("x", 1)  # E: arg-type
    send_email.delay("x", "y", "z", "too many")  # E: call-arg
    send_email.delay(to="x", subject="y", unknown=1)  # E: call-arg
    send_email.delay("x", "y", to="twice")  # E: misc


def delay_takes_no_undeclared_option() -> None:
    send_email.delay(to="x", subject="y", _delay_seconds=5)  # E: call-arg


def bake_checks_its_arguments() -> None:
    send_email.bake()  # E: call-arg
    send_email.bake(to="x")  # E: call-arg
    send_email.bake(to=b"x", subject="y")  # E: arg-type
    send_email.bake(to="x", subject="y", unknown=1)  # E: call-arg


def a_baked_task_takes_no_more_arguments() -> None:
    send_email.bake(to="x", subject="y").delay(to="x")  # E: call-arg


def run_checks_its_arguments_and_result() -> None:
    send_email.run()  # E: call-arg
    send_email.run(to="x", subject=None)  # E: arg-type
    send_email.run(to="x", subject="y", unknown=1)  # E: call-arg
    result: str = send_email.run(to="x", subject="y")  # E: assignment
    print(result)


def options_are_checked() -> None:
    send_email.options(delay="soon")  # E: arg-type
    send_email.options(group_id=1)  # E: arg-type
    send_email.options(deduplication_id=b"d")  # E: arg-type
    send_email.options(codec=5)  # E: arg-type
    send_email.options(unknown=1)  # E: call-arg
    send_email.options(5)  # E: call-arg


def delay_behind_options_checks_its_arguments() -> None:
    send_email.options(delay=5).delay()  # E: call-arg
    send_email.options(delay=5).delay(to="x", subject=1)  # E: arg-type
    send_email.options(delay=5).delay(to="x", subject="y", unknown=1)  # E: call-arg


async def adelay_checks_its_arguments() -> None:
    await send_email.adelay()  # E: call-arg
    await send_email.adelay(to="x", subject=1)  # E: arg-type
    await send_email.adelay(to="x", subject="y", unknown=1)  # E: call-arg


def a_call_checks_its_arguments() -> None:
    send_email(to="x")  # E: call-arg


def a_processor_name_is_a_string() -> None:
    queue.processor(send_email)  # E: arg-type, call-overload


def an_environment_checks_its_arguments() -> None:
    SQSEnv(codec=5)  # E: arg-type
    SQSEnv(unknown=1)  # E: call-arg
    SQSEnv(transport="leen")  # E: arg-type
    SQSEnv(accept=5)  # E: arg-type
    SQSEnv(clock=5)  # E: arg-type
    SQSEnv(transport="fast")  # E: arg-type
    env.queue(5)  # E: call-overload, arg-type
