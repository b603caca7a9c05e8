"""Credentials that change, messages that were damaged, processes that fork."""

from __future__ import annotations

import datetime
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import ChecksumError, ClientError

from sqs_workers.messages import OutgoingMessage, string_attribute
from sqs_workers.transport import ErrorKind, ReceiveOptions, classify
from sqs_workers.transport.lean.codec import MD5_MISMATCH
from sqs_workers.transport.lean.md5 import md5_of_attributes, md5_of_body
from tests.lean.clients import QUEUE, client_of, lean, without_moto
from tests.lean.scripted import answer, error, serving


class Issuer:
    """Issues credentials for an hour each."""

    def __init__(self) -> None:
        self.now = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
        self.issued = 0

    def issue(self) -> dict[str, str]:
        self.issued += 1
        return {
            "access_key": f"KEY{self.issued}",
            "secret_key": f"secret{self.issued}",
            "token": f"token{self.issued}",
            "expiry_time": (self.now + datetime.timedelta(hours=1)).isoformat(),
        }

    def session(self) -> Any:
        credentials = RefreshableCredentials.create_from_metadata(self.issue(), self.issue, "test")
        credentials._time_fetcher = lambda: self.now
        session = botocore.session.Session()
        session._credentials = credentials
        made = boto3.session.Session(botocore_session=session, region_name="us-east-1")
        without_moto(made.events)
        return made


def test_f34_credentials_are_fresh_ones_once_the_old_ones_are_due() -> None:
    issuer = Issuer()
    with (
        serving(answer(), error("ExpiredToken", 403)) as server,
        lean(client_of(server.url, session=issuer.session())) as transport,
    ):
        transport.receive(QUEUE, ReceiveOptions())
        with pytest.raises(ClientError) as caught:
            transport.receive(QUEUE, ReceiveOptions())
        assert classify(caught.value) is ErrorKind.CREDENTIALS
        issuer.now += datetime.timedelta(hours=1)
        transport.receive(QUEUE, ReceiveOptions())
        transport.delete(QUEUE, "handle")
    tokens = [request.headers["x-amz-security-token"] for request in server.received]
    assert tokens == ["token1", "token1", "token2", "token2"]
    keys = [request.headers["authorization"].split("Credential=")[1][:4] for request in server.received]
    assert keys == ["KEY1", "KEY1", "KEY2", "KEY2"]


ATTRIBUTES: dict[str, dict[str, Any]] = {
    "JobName": string_attribute("send_email"),
    "Binary": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    "Long": string_attribute("x" * 1000),
}
MESSAGE = OutgoingMessage("bødy", ATTRIBUTES)
GOOD = {
    "MD5OfMessageBody": md5_of_body("bødy"),
    "MD5OfMessageAttributes": md5_of_attributes(ATTRIBUTES),
    "MessageId": "id",
}
BAD_DIGEST = "0" * 32


def test_the_digests_are_those_that_sqs_documents() -> None:
    # The example of a message in the API reference of SendMessage.
    assert md5_of_body("This is a test message") == "fafb00f5732ab283681e124bf8747ed1"


@pytest.mark.parametrize("damaged", ["MD5OfMessageBody", "MD5OfMessageAttributes"])
def test_a_message_that_sqs_did_not_take_as_it_was_sent_is_an_error(damaged: str) -> None:
    bad = {**GOOD, damaged: BAD_DIGEST}
    batch = {"Successful": [{"Id": "0", **GOOD}, {"Id": "1", **bad}]}
    with (
        serving(answer(GOOD), answer(bad), answer(batch)) as server,
        lean(client_of(server.url)) as transport,
    ):
        assert transport.send(QUEUE, MESSAGE) == "id"
        with pytest.raises(ChecksumError, match=BAD_DIGEST) as caught:
            transport.send(QUEUE, MESSAGE)
        assert classify(caught.value).temporary
        first, second = transport.send_batch(QUEUE, [MESSAGE, MESSAGE])
        assert first.message_id == "id"
        assert second.message_id is None
        assert second.error is not None
        assert second.error.code == MD5_MISMATCH
        assert not second.error.sender_fault


def received(number: int, **changes: str) -> dict[str, Any]:
    return {
        "MessageId": f"id-{number}",
        "ReceiptHandle": f"handle-{number}",
        "Body": f"body {number}",
        "MD5OfBody": md5_of_body(f"body {number}"),
        "MessageAttributes": {"JobName": string_attribute("job")},
        "MD5OfMessageAttributes": md5_of_attributes({"JobName": string_attribute("job")}),
        **changes,
    }


@pytest.mark.parametrize("damaged", ["MD5OfBody", "MD5OfMessageAttributes"])
def test_a_damaged_message_is_left_out_and_the_others_are_not(
    damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad = received(2, **{damaged: BAD_DIGEST})
    with (
        serving(answer({"Messages": [received(1), bad, received(3)]}), answer({"Messages": [bad]})) as server,
        lean(client_of(server.url)) as transport,
    ):
        messages = transport.receive(QUEUE, ReceiveOptions())
        assert [message.message_id for message in messages] == ["id-1", "id-3"]
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        assert "id-2" in caplog.text
        assert "body 2" not in caplog.text
        with pytest.raises(ChecksumError):
            transport.receive(QUEUE, ReceiveOptions())


def test_an_entry_of_a_batch_that_sqs_does_not_name_is_an_error() -> None:
    failed = {"Id": "1", "Code": "InternalError", "Message": "sorry", "SenderFault": False}
    with (
        serving(answer({"Successful": [{"Id": "0"}], "Failed": [failed]})) as server,
        lean(client_of(server.url)) as transport,
    ):
        first, second, third = transport.delete_batch(QUEUE, ["a", "b", "c"])
        assert first is None
        assert second is not None
        assert (second.code, second.message) == ("InternalError", "sorry")
        assert third is not None
        assert third.code == "NotAnswered"


FORKING = """
import os, sys
from tests.lean.clients import QUEUE, client_of, plain_session
from sqs_workers.transport import ReceiveOptions
from sqs_workers.transport.lean import LeanTransport

made = []

def make():
    made.append(os.getpid())
    return client_of(sys.argv[1])

transport = LeanTransport(make)
transport.delete(QUEUE, "parent")
child = os.fork()
if child == 0:
    try:
        transport.delete(QUEUE, "child")
        transport.delete(QUEUE, "child")
        transport.close()
        assert made == [os.getppid(), os.getpid()], made
        os._exit(0)
    finally:
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
transport.delete(QUEUE, "parent")
transport.close()
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system does not fork")
def test_f39_a_forked_process_has_connections_of_its_own() -> None:
    with serving() as server:
        subprocess.run(
            [sys.executable, "-W", "error", "-c", FORKING, server.url],
            check=True,
            timeout=50,
            cwd=Path(__file__).parents[2],
        )
        asked = [(request.json["ReceiptHandle"], request.connection) for request in server.received]
    assert asked == [("parent", 0), ("child", 1), ("child", 1), ("parent", 0)]


IMPORTING = """
import sys
import sqs_workers.transport.lean
assert not {"boto3", "botocore", "urllib3"} & set(sys.modules)
"""


def test_importing_the_transport_imports_no_botocore() -> None:
    subprocess.run([sys.executable, "-c", IMPORTING], check=True, timeout=50, cwd=Path(__file__).parents[2])


def test_in_lambda_the_trace_of_the_invocation_goes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "function")
    with serving() as server, lean(client_of(server.url)) as transport:
        for trace in ("Root=1-a;Sampled=1", "Root=1-b\r\nX: é"):
            monkeypatch.setenv("_X_AMZN_TRACE_ID", trace)
            transport.delete(QUEUE, "x")
        monkeypatch.delenv("_X_AMZN_TRACE_ID")
        transport.delete(QUEUE, "x")
    traces = [request.headers.get("x-amzn-trace-id") for request in server.received]
    assert traces == ["Root=1-a;Sampled=1", "Root=1-b%0D%0AX:%20%C3%A9", None]
