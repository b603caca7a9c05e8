"""300 e-mails through an in-memory SQS: some fail and are retried, one never succeeds and is dead-lettered.

Run it with ``python examples/mail.py``. Nothing leaves the process.
"""

from __future__ import annotations

import threading
from collections import Counter

from sqs_workers import MemorySession, SQSEnv, create_standard_queue
from sqs_workers.backoff_policies import ConstantBackoff
from sqs_workers.shutdown_policies import IdleShutdown

# Replace MemorySession() by boto3, or leave it out, and the same code runs on AWS.
sqs = SQSEnv(MemorySession(), codec="json", backoff_policy=ConstantBackoff(1))
create_standard_queue(sqs, "emails_dead")
create_standard_queue(sqs, "emails", redrive_policy=sqs.redrive_policy("emails_dead", 3))
emails = sqs.queue("emails")

attempts: Counter[str] = Counter()
sent: list[str] = []
lock = threading.Lock()


@emails.processor("send_email")
def send_email(to: str, subject: str) -> None:
    with lock:
        attempts[to] += 1
        attempt = attempts[to]
    if to == "nobody@nowhere.invalid":
        raise ConnectionError("no such host")
    if to.startswith("flaky") and attempt == 1:
        raise TimeoutError("the mail server is busy")
    with lock:
        sent.append(to)


def main() -> None:
    addresses = [f"user{number}@example.com" for number in range(294)]
    addresses += [f"flaky{number}@example.com" for number in range(5)]
    addresses += ["nobody@nowhere.invalid"]
    with send_email.batch():
        for address in addresses:
            send_email.delay(to=address, subject="Your invoice")
    print(f"queued      {len(addresses)} jobs, in batches of 10")

    emails.process_queue(concurrency=8, wait_second=1, shutdown_policy=IdleShutdown(2))

    dead = sqs.queue("emails_dead").get_raw_messages(wait_seconds=0)
    retried = sum(1 for count in attempts.values() if count > 1)
    print(f"sent        {len(sent)} e-mails, each once: {len(sent) == len(set(sent))}")
    print(f"retried     {retried} jobs")
    print(f"dead-letter {len(dead)} job, after {attempts['nobody@nowhere.invalid']} attempts")


if __name__ == "__main__":
    import logging

    # Each failed attempt is logged with its traceback; a demonstration shows the outcome alone.
    logging.getLogger("sqs_workers").setLevel(logging.CRITICAL)
    main()
