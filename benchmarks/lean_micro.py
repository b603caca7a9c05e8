"""CPU of one call, boto3 against the lean transport, over a server that answers from memory.

    python benchmarks/lean_micro.py [--calls 2000] [--rounds 5]

The server runs in a process of its own and is not counted. Each round measures both transports one after the
other; the table has the medians, in microseconds of CPU (user and system) of the calling process a call.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import socket
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

from sqs_workers.messages import OutgoingMessage, string_attribute
from sqs_workers.transport import ReceiveOptions, Transport, open_transport
from sqs_workers.transport.lean.md5 import md5_of_attributes

BODY = json.dumps({"user_id": 12345, "template": "welcome", "when": "2026-01-01T00:00:00Z"})
ATTRIBUTES = {
    "ContentType": string_attribute("json"),
    "JobName": string_attribute("send_email"),
    "JobContext": string_attribute("{}"),
}
QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/123456789012/queue"
HANDLE = "AQEB" + "x" * 400
ID = "5fea7756-0ea4-451a-a703-a558b933e274"


def canned() -> dict[str, bytes]:
    """Answers by operation."""
    digests = {
        "MD5OfMessageBody": hashlib.md5(BODY.encode(), usedforsecurity=False).hexdigest(),
        "MD5OfMessageAttributes": md5_of_attributes(ATTRIBUTES),
    }
    message = {
        "MessageId": ID,
        "ReceiptHandle": HANDLE,
        "Body": BODY,
        "MD5OfBody": digests["MD5OfMessageBody"],
        "MD5OfMessageAttributes": digests["MD5OfMessageAttributes"],
        "Attributes": {"ApproximateReceiveCount": "1"},
        "MessageAttributes": ATTRIBUTES,
    }
    done = {"Successful": [{"Id": str(index)} for index in range(10)]}
    answers: dict[str, Any] = {
        "SendMessage": {"MessageId": ID, **digests},
        "SendMessageBatch": {
            "Successful": [{"Id": str(index), "MessageId": ID, **digests} for index in range(10)]
        },
        "ReceiveMessage": {"Messages": [message] * 10},
        "DeleteMessageBatch": done,
        "ChangeMessageVisibilityBatch": done,
    }
    return {name: _http(json.dumps(answer).encode()) for name, answer in answers.items()}


def _http(body: bytes) -> bytes:
    head = (
        "HTTP/1.1 200 OK\r\nx-amzn-RequestId: 8fbd3d2a-94a0-5e5b-8ffd-606e3a4cbd5a\r\n"
        "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"Content-Length: {len(body)}\r\nconnection: keep-alive\r\n\r\n"
    )
    return head.encode() + body


def serve(listener: socket.socket) -> None:
    """Answer every connection in a thread of its own."""
    answers = canned()
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=(connection, answers), daemon=True).start()


def _answer(connection: socket.socket, answers: dict[str, bytes]) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = b""
    with connection:
        while True:
            while (end := data.find(b"\r\n\r\n")) < 0:
                part = connection.recv(65536)
                if not part:
                    return
                data += part
            head = data[:end].lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            while len(data) < end + 4 + length:
                data += connection.recv(65536)
            target = data[:end].partition(b"AmazonSQS.")[2].partition(b"\r\n")[0].decode()
            data = data[end + 4 + length :]
            connection.sendall(answers[target])


def calls(transport: Transport) -> dict[str, Callable[[], object]]:
    """What is measured, by name."""
    message = OutgoingMessage(BODY, ATTRIBUTES)
    messages = [message] * 10
    handles = [HANDLE] * 10
    options = ReceiveOptions()
    return {
        "send 1": lambda: transport.send(QUEUE_URL, message),
        "send 10": lambda: transport.send_batch(QUEUE_URL, messages),
        "receive 10": lambda: transport.receive(QUEUE_URL, options),
        "delete 10": lambda: transport.delete_batch(QUEUE_URL, handles),
        "extend 10": lambda: transport.change_visibility_batch(QUEUE_URL, [(h, 30) for h in handles]),
    }


def measure(call: Callable[[], object], count: int) -> float:
    """Microseconds of CPU a call."""
    for _ in range(20):
        call()
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.environ.update(
        AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="example", AWS_REGION="us-east-1"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = multiprocessing.get_context("fork").Process(target=serve, args=(listener,), daemon=True)
        server.start()
        try:
            report(f"http://127.0.0.1:{listener.getsockname()[1]}", arguments.calls, arguments.rounds)
        finally:
            server.terminate()
            server.join()


def report(url: str, count: int, rounds: int) -> None:
    import boto3

    session = boto3.session.Session(region_name="us-east-1")
    client = session.client("sqs", endpoint_url=url)
    slow = calls(open_transport(lambda: session, mode="boto3", get_client=lambda: client))
    fast = calls(open_transport(lambda: session, mode="lean", get_client=lambda: client))
    print(f"{'call':<12}{'boto3 us':>10}{'lean us':>10}{'lean/boto3':>12}")
    for name in slow:
        pairs = [(measure(slow[name], count), measure(fast[name], count)) for _ in range(rounds)]
        ours = statistics.median(pair[1] for pair in pairs)
        theirs = statistics.median(pair[0] for pair in pairs)
        ratio = statistics.median(pair[1] / pair[0] for pair in pairs)
        print(f"{name:<12}{theirs:>10.0f}{ours:>10.0f}{ratio:>12.2f}")


if __name__ == "__main__":
    main()
