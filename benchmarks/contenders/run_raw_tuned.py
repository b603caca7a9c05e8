"""boto3 as fast as it goes by hand: overlapped receives, deletes in the background, no parameter checks.

It loses messages when it is stopped, knows no heartbeat, no errors and no order: the mark to measure
a worker by, not a worker.
"""

from __future__ import annotations

import json
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import bench_jobs
import boto3
from botocore.config import Config

RECEIVERS = 4
DELETERS = 4

client = boto3.client("sqs", config=Config(max_pool_connections=32, parameter_validation=False))
url = client.get_queue_url(QueueName=bench_jobs.QUEUE)["QueueUrl"]
deleter = ThreadPoolExecutor(DELETERS)


def receive() -> list[dict[str, Any]]:
    answer = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=10)
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    return messages


def delete(handles: list[str]) -> None:
    entries = [{"Id": str(number), "ReceiptHandle": handle} for number, handle in enumerate(handles)]
    client.delete_message_batch(QueueUrl=url, Entries=entries)


def loop_inline() -> None:
    """For jobs that take no time: whoever receives also works."""
    while True:
        messages = receive()
        for message in messages:
            bench_jobs.handle(**json.loads(message["Body"]))
        if messages:
            deleter.submit(delete, [message["ReceiptHandle"] for message in messages])


free = threading.Semaphore(bench_jobs.CONCURRENCY + 20)
done: queue.SimpleQueue[str] = queue.SimpleQueue()


def loop_delete() -> None:
    while True:
        handles = [done.get()]
        try:
            while len(handles) < 10:
                handles.append(done.get(timeout=0.02))
        except queue.Empty:
            pass
        delete(handles)


def run(message: dict[str, Any]) -> None:
    bench_jobs.handle(**json.loads(message["Body"]))
    free.release()
    done.put(message["ReceiptHandle"])


def loop_pooled(pool: ThreadPoolExecutor) -> None:
    while True:
        for _ in range(10):
            free.acquire()
        messages = receive()
        for _ in range(10 - len(messages)):
            free.release()
        for message in messages:
            pool.submit(run, message)


def work() -> None:
    if bench_jobs.JOB_MS == 0:
        threads = [threading.Thread(target=loop_inline, daemon=True) for _ in range(RECEIVERS)]
    else:
        pool = ThreadPoolExecutor(bench_jobs.CONCURRENCY)
        threads = [threading.Thread(target=loop_pooled, args=(pool,), daemon=True) for _ in range(RECEIVERS)]
        threads += [threading.Thread(target=loop_delete, daemon=True) for _ in range(DELETERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    from run_raw import send, send_batch

    bench_jobs.main(
        work=work,
        enqueue=lambda: bench_jobs.timed(send),
        enqueue_batch=lambda: bench_jobs.timed(send_batch),
    )
