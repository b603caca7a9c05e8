"""The same server, the same calls: the lean transport and boto3's client must not be told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sqs_workers.messages import OutgoingMessage, string_attribute
from sqs_workers.transport import ErrorKind, ReceiveOptions, Transport, classify
from tests.lean.clients import QUEUE, client_of, lean, through_boto3
from tests.lean.scripted import Step, answer, error, hang_up, hold, raw, reset, serving
from tests.servers import boto_session

Outcome = tuple[str, str, Any, int]


def outcome(call: Callable[[], object], url: str) -> Outcome:
    """Class, text, response and kind of the exception that a call raises."""
    try:
        call()
    except Exception as caught:
        name = f"{type(caught).__module__}.{type(caught).__qualname__}"
        text = str(caught).replace(url, "URL").replace("URL/", "URL")
        return name, text, getattr(caught, "response", None), 0
    return "", "", None, 0


def both(steps: list[Step], call: Callable[[Transport], object], **config: Any) -> tuple[Outcome, Outcome]:
    """What becomes of a call through boto3, and through the lean transport."""
    outcomes = []
    for opened in (through_boto3, lean):
        with serving(*steps) as server, opened(client_of(server.url, **config)) as transport:
            result = outcome(lambda: call(transport), server.url)
            outcomes.append((*result[:3], len(server.received)))
    return outcomes[0], outcomes[1]


REFUSALS = {
    "a modeled error": error("QueueDoesNotExist", query="AWS.SimpleQueueService.NonExistentQueue"),
    "an error by its query code": error("InvalidParameterValueException", query="InvalidParameterValue"),
    "throttled": error("RequestThrottled", query="RequestThrottled"),
    "throttled by KMS": error("KmsThrottled", query="KMS.ThrottlingException"),
    "denied by KMS": error("KmsAccessDenied", query="KMS.AccessDeniedException"),
    "denied": error("AccessDeniedException", 403),
    "expired": error("ExpiredToken", 403),
    "unknown key": error("InvalidClientTokenId", 403),
    "a code with an address": answer(
        {"__type": "OverLimit:http://internal.amazon.com/coral/", "Message": "too many in flight"}, status=403
    ),
    "no code": answer({"message": "what?"}, status=400),
    "no body": answer(b"", status=413),
    "internal error": error("InternalError", 500),
    "unavailable in HTML": answer(b"<html>503</html>", status=503),
    "too many": answer(b"", status=429),
    "moved": answer(b"", status=301, headers={"Location": "https://elsewhere"}),
    "a header twice": raw(b"HTTP/1.1 400 Bad\r\nX-Twice: a\r\nX-Twice: b\r\nContent-Length: 2\r\n\r\n{}"),
}


@pytest.mark.parametrize("step", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_is_the_same_exception(step: Step) -> None:
    theirs, ours = both([step, step], lambda transport: transport.get_queue_url("queue"))
    assert theirs[0].startswith("botocore.")
    assert ours == theirs


@pytest.mark.parametrize("step", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_is_retried_as_often(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    theirs, ours = both([step] * 4, lambda transport: transport.receive(QUEUE, ReceiveOptions()), attempts=3)
    assert ours == theirs


@pytest.mark.parametrize("mode", ["legacy", "standard"])
@pytest.mark.parametrize("name", ["internal error", "throttled", "denied", "too many"])
def test_each_retry_mode_is_kept(mode: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    theirs, ours = both(
        [REFUSALS[name]] * 7, lambda transport: transport.delete(QUEUE, "x"), retries={"mode": mode}
    )
    assert ours == theirs


@pytest.mark.parametrize("step", [reset, hang_up, hold])
def test_a_broken_connection_is_the_same_exception(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    theirs, ours = both(
        [step] * 3, lambda transport: transport.delete(QUEUE, "x"), attempts=2, read_timeout=0.2
    )
    assert ours == theirs


def test_without_credentials_the_exception_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    from tests.lean.clients import plain_session

    session = plain_session(aws_access_key_id=None, aws_secret_access_key=None)
    theirs, ours = both([], lambda transport: transport.delete(QUEUE, "x"), session=session)
    assert theirs[0] == "botocore.exceptions.NoCredentialsError"
    assert ours == theirs


def test_a_value_of_a_wrong_type_is_refused_by_botocores_validation() -> None:
    wrong: Any = OutgoingMessage(b"bytes")  # type: ignore[arg-type]
    theirs, ours = both([], lambda transport: transport.send(QUEUE, wrong))
    assert theirs[0] == "botocore.exceptions.ParamValidationError"
    assert ours == theirs
    theirs, ours = both([], lambda transport: transport.send_batch(QUEUE, [wrong]))
    assert theirs[0] == "botocore.exceptions.ParamValidationError"
    assert ours == theirs


def test_the_modeled_exception_of_the_client_catches_it() -> None:
    with serving(REFUSALS["a modeled error"]) as server:
        client = client_of(server.url)
        with lean(client) as transport, pytest.raises(client.exceptions.QueueDoesNotExist) as caught:
            transport.get_queue_url("queue")
        assert classify(caught.value) is ErrorKind.MISSING


ATTRIBUTES = {
    "ContentType": string_attribute("json"),
    "Text": string_attribute("€ \U0001f600"),
    "Number": {"DataType": "Number.int", "StringValue": "12"},
    "Binary": {"DataType": "Binary", "BinaryValue": bytes(range(256))},
}
MESSAGES = [
    OutgoingMessage("plain"),
    OutgoingMessage("ünïcödé \U0001f600 \t\r\n", ATTRIBUTES),
    OutgoingMessage('{"quotes": "\\"", "null": null}', {"ContentType": string_attribute("json")}),
    OutgoingMessage("x" * 200_000),
    OutgoingMessage("delayed", delay_seconds=0),
]


def test_everything_comes_out_as_through_boto3(moto_endpoint: str) -> None:
    session = boto_session(moto_endpoint)
    results = []
    for name, opened in (("through-boto3", through_boto3), ("through-lean", lean)):
        client = session.client("sqs")
        client.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "600"})
        with opened(client) as transport:
            results.append(all_operations(transport, name))
    assert results[1] == results[0]


def all_operations(transport: Transport, name: str) -> list[object]:
    """What each operation returned, without ids and other chance."""
    url = transport.get_queue_url(name)
    seen: list[object] = [transport.get_queue_attributes(url, ["VisibilityTimeout", "DelaySeconds"])]
    assert all(transport.send(url, message) for message in MESSAGES)
    sent = transport.send_batch(url, MESSAGES[:4])
    seen.append([(result.message_id is not None, result.error) for result in sent])
    everything = ReceiveOptions(10, system_attributes=("All",), visibility_timeout=300)
    messages = transport.receive(url, everything)
    assert len(messages) == len(MESSAGES) + 4
    for message in messages:
        seen.append((message.body, message.message_attributes, message.md5_of_body))
        seen.append((sorted(message.attributes), message.receive_count, message.queue_url == url))
    assert transport.receive(url, ReceiveOptions(1)) == []
    handles = [message.receipt_handle for message in messages]
    seen.append(transport.change_visibility(url, handles[0], 30))
    seen.append(transport.change_visibility_batch(url, [(handle, 40) for handle in handles] + [("none", 1)]))
    seen.append(transport.delete(url, handles[0]))
    seen.append(transport.delete_batch(url, [*handles[1:], "none"]))
    for call in (
        lambda: transport.get_queue_url("missing"),
        lambda: transport.delete(url, "nonsense"),
        lambda: transport.receive(url + "-missing", ReceiveOptions()),
        lambda: transport.send(url, OutgoingMessage("x", delay_seconds=10_000)),
    ):
        kind, text, response, _ = outcome(call, url)
        seen.append((kind, text, response and response["Error"]))
    return seen


@pytest.mark.parametrize("opened", [through_boto3, lean])
def test_a_fifo_queue_gets_its_groups_and_ids(opened: Any, moto_endpoint: str) -> None:
    client = boto_session(moto_endpoint).client("sqs")
    name = f"{opened.__name__}.fifo".replace("_", "-")
    client.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})
    with opened(client) as transport:
        url = transport.get_queue_url(name)
        message = OutgoingMessage("x", group_id="g", deduplication_id="d")
        transport.send(url, message)
        (received,) = transport.receive(url, ReceiveOptions(system_attributes=("All",)))
        assert received.group_id == "g"
        assert received.attributes["MessageDeduplicationId"] == "d"
