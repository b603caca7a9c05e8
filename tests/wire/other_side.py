"""Sends or runs jobs with whichever ``sqs_workers`` is installed where this script runs.

Usage: ``python other_side.py send|work OUTPUT``; the endpoint and the credentials come from the environment.
Written against the interface of sqs-workers 0.7.3, it runs unchanged with both packages: the test runs it in
a process of either and compares what arrived.
"""

from __future__ import annotations

import datetime
import pickle
import sys
import uuid
from decimal import Decimal

from sqs_workers import RawQueue, SQSEnv
from sqs_workers.batching import BatchMessages
from sqs_workers.shutdown_policies import IdleShutdown

PREFIX = "compat_"
CODECS = ["json", "pickle", "pickle_compat"]
CONTEXT = {"request_id": "r-17", "пользователь": "Ada", "nested": {"list": [1, None, True]}}

JSON_VALUES = {
    "text": 'naïve 你好 🎉 \t\n "quoted" \\ </script>',
    "empty": "",
    "number": -12345678901234567890,
    "fraction": 0.1,
    "nothing": None,
    "flag": False,
    "nested": {"list": [1, [2, {"three": 3}]], "ключ": "значение"},
}
PICKLE_VALUES = {
    **JSON_VALUES,
    "when": datetime.datetime(2026, 2, 28, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc),
    "id": uuid.UUID("12345678-1234-5678-1234-567812345678"),
    "amount": Decimal("10.010"),
    "raw": bytes(range(256)),
    "pair": (1, "two"),
    "members": {1, 2, 3},
}

received = []


def values_for(codec):
    return JSON_VALUES if codec == "json" else PICKLE_VALUES


def make():
    sqs = SQSEnv(queue_prefix=PREFIX)
    jobs = sqs.queue("jobs")
    fifo = sqs.queue("ordered.fifo")
    reader = sqs.queue("reader", batching_policy=BatchMessages(batch_size=10))
    raw = sqs.queue("raw", RawQueue)

    @jobs.processor("record", pass_context=True)
    def record(codec, values, context=None):
        received.append(("record", codec, values, context.to_dict()))

    @jobs.processor("batched")
    def batched(number):
        received.append(("batched", number))

    @fifo.processor("step")
    def step(group, number):
        received.append(("step", group, number))

    @reader.processor("read")
    def read(messages):
        received.extend(("read", message["number"]) for message in messages)

    @raw.raw_processor()
    def process(message):
        received.append(("raw", message.body))

    return sqs, record, batched, step, read, raw


def send():
    sqs, record, batched, _step, read, raw = make()
    for codec in CODECS:
        with sqs.context(**CONTEXT):
            sqs.queue("jobs").add_job("record", _content_type=codec, codec=codec, values=values_for(codec))
    record.delay("pickle_compat", JSON_VALUES)
    record.bake(codec="baked", values=[]).delay()
    with batched.batch():
        for number in range(23):
            batched.delay(number)
    for number in range(6):
        for group in ("a", "b"):
            sqs.queue("ordered.fifo").add_job(
                "step", _group_id=group, _deduplication_id=f"{group}{number}", group=group, number=number
            )
    for number in range(4):
        read.delay(number=number)
    raw.add_raw_job("Hello world, Привет")


def work():
    sqs, *_ = make()
    for name in ("jobs", "ordered.fifo", "reader", "raw"):
        sqs.queue(name).process_queue(shutdown_policy=IdleShutdown(0), wait_second=1)


if __name__ == "__main__":
    action, output = sys.argv[1:]
    {"send": send, "work": work}[action]()
    with open(output, "wb") as file:
        pickle.dump(received, file)
