"""A plain boto3 loop: receive ten, handle them, delete ten. One thread for each slot."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import bench_jobs
import boto3
from botocore.config import Config

client = boto3.client("sqs", config=Config(max_pool_connections=max(10, bench_jobs.CONCURRENCY)))
url = client.get_queue_url(QueueName=bench_jobs.QUEUE)["QueueUrl"]


def loop() -> None:
    while True:
        messages = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=10).get(
            "Messages", []
        )
        for message in messages:
            bench_jobs.handle(**json.loads(message["Body"]))
        if messages:
            entries = [
                {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                for number, message in enumerate(messages)
            ]
            client.delete_message_batch(QueueUrl=url, Entries=entries)


def work() -> None:
    threads = [threading.Thread(target=loop, daemon=True) for _ in range(bench_jobs.CONCURRENCY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def send(jobs: Iterator[dict[str, Any]]) -> None:
    for job in jobs:
        client.send_message(QueueUrl=url, MessageBody=json.dumps(job))


def send_batch(jobs: Iterator[dict[str, Any]]) -> None:
    while ten := list(islice(jobs, 10)):
        entries = [{"Id": str(number), "MessageBody": json.dumps(job)} for number, job in enumerate(ten)]
        client.send_message_batch(QueueUrl=url, Entries=entries)


if __name__ == "__main__":
    bench_jobs.main(
        work=work,
        enqueue=lambda: bench_jobs.timed(send),
        enqueue_batch=lambda: bench_jobs.timed(send_batch),
    )
