"""Large bodies in S3, over the wire, with Amazon's extended client on the other side."""

from __future__ import annotations

import importlib.util
import json
import pickle
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from sqs_workers import current_job
from sqs_workers.backoff_policies import ConstantBackoff
from sqs_workers.batching import BatchMessages
from sqs_workers.exceptions import (
    ConfigurationError,
    MessageTooLargeError,
    PermanentError,
    SendError,
    UndecodableMessageError,
)
from sqs_workers.failure_policies import DeadLetter
from sqs_workers.hooks import JobFailed
from sqs_workers.messages import Message
from sqs_workers.queue import RawQueue
from sqs_workers.s3_payload import COMPRESSION, POINTER_CLASS, RESERVED_ATTRIBUTE, S3Payload
from sqs_workers.sqs_manage import create_standard_queue
from tests.servers import server_absent
from tests.time.conftest import Cloud

pytestmark = pytest.mark.wire

FIVE_MEBIBYTES = "é" * (5 * 1024 * 1024 // 2)
LARGE = "é" * 150_000
MIB = 1024 * 1024


def worker(cloud: Cloud, **options: Any) -> tuple[Any, Any, list[Any]]:
    """The queue with a store, its task, and what the task got."""
    got: list[Any] = []
    settings = options.pop("settings", {})
    store = S3Payload(cloud.name, client=cloud.s3, **options)
    queue = cloud.env().queue(cloud.name, payload=store, backoff_policy=ConstantBackoff(0), **settings)
    return queue, queue.connect_processor("work", lambda value: got.append(value)), got


def extended_client(cloud: Cloud, queue: Any, action: str, *flags: str, message: Any = None) -> Any:
    """Send or receive a message by ``amazon-sqs-extended-client``."""
    if importlib.util.find_spec("sqs_extended_client") is None:
        server_absent("sqs_extended_client", "amazon-sqs-extended-client")
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-m", "tests.time.extended_client"),
            *(cloud.session.endpoint, cloud.name, queue.url, action, *flags),
        ],
        input=json.dumps(message),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if action == "receive" else None


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_five_mebibytes_make_the_round_trip(cloud: Cloud, compression: Any) -> None:
    queue, task, got = worker(cloud, compression=compression)
    task.delay(FIVE_MEBIBYTES)
    [key] = cloud.objects()
    assert (cloud.s3.head_object(Bucket=cloud.name, Key=key)["ContentLength"] < MIB) == bool(compression)
    assert queue.process_batch().succeeded_count() == 1
    assert got == [FIVE_MEBIBYTES]
    assert cloud.objects() == [], "deleted after the acknowledgement"


def test_a_small_body_stays_in_its_message(cloud: Cloud) -> None:
    queue, task, got = worker(cloud)
    task.delay("x" * 200_000)
    assert cloud.objects() == []
    queue.process_batch()
    assert len(got[0]) == 200_000


def test_a_batch_of_large_and_small_jobs(cloud: Cloud) -> None:
    queue, task, got = worker(cloud, prefix="jobs/", threshold=10_000)
    with task.batch():
        for number in range(12):
            task.delay(str(number) * (20_000 if number % 2 else 10))
    assert len(cloud.objects()) == 6
    assert all(key.startswith("jobs/") for key in cloud.objects())
    while queue.process_batch().total_count():
        pass
    assert len(got) == 12
    assert cloud.objects() == []


@pytest.mark.parametrize("legacy", [False, True])
def test_what_the_extended_client_wrote_is_read(cloud: Cloud, legacy: bool) -> None:
    queue, _, got = worker(cloud)
    message = {
        "MessageBody": json.dumps({"value": FIVE_MEBIBYTES}),
        "MessageAttributes": {
            "JobName": {"DataType": "String", "StringValue": "work"},
            "ContentType": {"DataType": "String", "StringValue": "json"},
        },
    }
    extended_client(cloud, queue, "send", *(["legacy"] if legacy else []), message=message)
    assert len(cloud.objects()) == 1
    assert queue.process_batch().succeeded_count() == 1
    assert got == [FIVE_MEBIBYTES]
    assert cloud.objects() == []


def test_the_extended_client_reads_what_was_written_here(cloud: Cloud) -> None:
    queue, task, _ = worker(cloud)
    task.delay(FIVE_MEBIBYTES)
    message = extended_client(cloud, queue, "receive")
    assert json.loads(message["Body"]) == {"value": FIVE_MEBIBYTES}
    assert set(message["MessageAttributes"]) == {"JobName", "ContentType", "JobContext"}
    assert cloud.objects() == []
    assert queue.process_batch().total_count() == 0


def test_the_object_stays_until_the_job_succeeds(cloud: Cloud) -> None:
    queue, task, _ = worker(cloud)
    calls: list[int] = []

    def fail_first(value: str) -> None:
        calls.append(len(cloud.objects()))
        if len(calls) == 1:
            raise ValueError("not yet")

    queue.connect_processor("work", fail_first)
    task.delay(LARGE)
    queue.process_batch()
    assert len(cloud.objects()) == 1
    queue.process_batch()
    assert calls == [1, 1]
    assert cloud.objects() == []


def test_an_object_that_is_left_to_a_lifecycle_rule_stays(cloud: Cloud) -> None:
    queue, task, got = worker(cloud, delete="never")
    task.delay(LARGE)
    queue.process_batch()
    assert got == [LARGE]
    assert len(cloud.objects()) == 1


def test_a_dead_letter_keeps_its_pointer_and_its_object(cloud: Cloud) -> None:
    dead = f"{cloud.name}-dead"
    queue, task, _ = worker(cloud, settings={"failure_policy": DeadLetter(dead)})
    create_standard_queue(queue.env, dead)

    def refuse(value: str) -> None:
        raise PermanentError("bad")

    queue.connect_processor("work", refuse)
    task.delay(LARGE)
    queue.process_batch()
    [letter] = queue.env.queue(dead).get_raw_messages()
    assert json.loads(letter.body)[0] == POINTER_CLASS
    assert queue.settings.payload.load(letter).body == json.dumps({"value": LARGE})
    assert len(cloud.objects()) == 1


def failures_of(queue: Any) -> list[BaseException]:
    found: list[BaseException] = []
    queue.env.on(JobFailed)(lambda event: found.append(event.error))
    queue.process_batch()
    return found


def test_a_missing_object_is_a_permanent_error(cloud: Cloud) -> None:
    queue, task, got = worker(cloud)
    task.delay(LARGE)
    cloud.s3.delete_object(Bucket=cloud.name, Key=cloud.objects()[0])
    [error] = failures_of(queue)
    assert isinstance(error, PermanentError)
    assert "NoSuchKey" in str(error)
    assert got == []


def send_pointer(queue: Any, bucket: str, key: str, body: str | None = None, **extra: Any) -> None:
    queue.env.sqs_client.send_message(
        QueueUrl=queue.url,
        MessageBody=json.dumps([POINTER_CLASS, {"s3BucketName": bucket, "s3Key": key}])
        if body is None
        else body,
        MessageAttributes={
            "JobName": {"DataType": "String", "StringValue": "work"},
            "ContentType": {"DataType": "String", "StringValue": "json"},
            RESERVED_ATTRIBUTE: {"DataType": "Number", "StringValue": "5"},
            **extra,
        },
    )


class NeverAsked:
    """A client of S3 of which nothing may be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"S3 was asked: {name}")


def test_a_pointer_to_another_bucket_is_refused_and_nothing_is_fetched(cloud: Cloud) -> None:
    queue, _, got = worker(cloud)
    queue.settings.payload._given_client = NeverAsked()
    send_pointer(queue, "secrets-of-somebody", "key")
    [error] = failures_of(queue)
    assert type(error) is PermanentError
    assert "'secrets-of-somebody', which is not allowed" in str(error)
    assert got == []


def test_a_bucket_that_is_allowed_is_read(cloud: Cloud) -> None:
    other = f"{cloud.name}-other"
    cloud.s3.create_bucket(Bucket=other)
    cloud.s3.put_object(Bucket=other, Key="k", Body=b'{"value": 7}')
    queue, _, got = worker(cloud, allowed_buckets=[other])
    send_pointer(queue, other, "k")
    queue.process_batch()
    assert got == [7]
    assert cloud.objects(other) == []


@pytest.mark.parametrize(
    "body",
    [
        "hello",
        "[]",
        "{}",
        '["software.amazon.payloadoffloading.PayloadS3Pointer", {"s3BucketName": 5, "s3Key": "k"}]',
        '["software.amazon.payloadoffloading.PayloadS3Pointer", {"s3BucketName": "b"}]',
        '["java.lang.Runtime", {"s3BucketName": "b", "s3Key": "k"}]',
        "[" * 100_000,
    ],
    ids=["text", "empty", "object", "number", "no-key", "class", "deep"],
)
def test_what_is_no_pointer_is_undecodable(body: str) -> None:
    store = S3Payload("bucket", client=NeverAsked())
    with pytest.raises(UndecodableMessageError, match="no pointer to S3"):
        store.load(Message("m-1", "r", body, {}, {RESERVED_ATTRIBUTE: {"StringValue": "5"}}))


def test_sizes_are_bounded_on_both_sides_and_after_decompression(cloud: Cloud) -> None:
    queue, task, got = worker(cloud, max_bytes=300_000)
    with pytest.raises(MessageTooLargeError, match="300000 at most"):
        task.delay("x" * 300_001)
    assert cloud.objects() == []
    cloud.s3.put_object(Bucket=cloud.name, Key="big", Body=b"x" * 300_001)
    cloud.s3.put_object(Bucket=cloud.name, Key="bomb", Body=zlib.compress(b"x" * 50_000_000))
    cloud.s3.put_object(Bucket=cloud.name, Key="short", Body=zlib.compress(b"x" * 1000)[:-9])
    cloud.s3.put_object(Bucket=cloud.name, Key="junk", Body=b"\xff\xfe")
    zipped = {COMPRESSION: {"DataType": "String", "StringValue": "zlib"}}
    odd = {COMPRESSION: {"DataType": "String", "StringValue": "lzma"}}
    send_pointer(queue, cloud.name, "big")
    send_pointer(queue, cloud.name, "bomb", **zipped)
    send_pointer(queue, cloud.name, "short", **zipped)
    send_pointer(queue, cloud.name, "junk", **zipped)
    send_pointer(queue, cloud.name, "junk")
    send_pointer(queue, cloud.name, "junk", **odd)
    errors = failures_of(queue)
    assert len(errors) == 6
    assert all(isinstance(error, PermanentError) for error in errors)
    texts = "\n".join(sorted(str(error) for error in errors))
    assert texts.count("more than 300000 bytes") == 2
    for words in ("ends too early", "cannot be read: error", "cannot be read: UnicodeDecodeError", "'lzma'"):
        assert words in texts
    assert got == []


def test_a_store_that_fails_for_now_is_tried_again(cloud: Cloud) -> None:
    queue, task, got = worker(cloud)
    task.delay(LARGE)
    with Stubber(cloud.s3) as stub:
        stub.add_client_error("get_object", "SlowDown", http_status_code=503)
        [error] = failures_of(queue)
    assert isinstance(error, ClientError)
    queue.process_batch()
    assert got == [LARGE]


def test_a_body_that_s3_does_not_take_is_not_sent(cloud: Cloud) -> None:
    queue, task, _ = worker(cloud)
    with Stubber(cloud.s3) as stub:
        stub.add_client_error("put_object", "AccessDenied", http_status_code=403)
        with pytest.raises(SendError, match=r"could not be stored in bucket .*AccessDenied"):
            task.delay(LARGE)
    assert queue.get_raw_messages() == []


def test_a_delete_that_fails_is_said_and_the_job_stays_done(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    queue, task, got = worker(cloud)
    task.delay(LARGE)
    remove = cloud.s3.delete_object

    def refuse(**_: Any) -> None:
        raise ConnectionError("no route")

    cloud.s3.delete_object = refuse
    try:
        assert queue.process_batch().succeeded_count() == 1
    finally:
        cloud.s3.delete_object = remove
    assert got == [LARGE]
    assert "was not deleted from bucket" in caplog.text
    assert queue.process_batch().total_count() == 0


def test_options_that_sqs_would_refuse_store_nothing(cloud: Cloud) -> None:
    _, task, _ = worker(cloud)
    with pytest.raises(SendError):
        task.options(deduplication_id="fifo-only").delay(LARGE)
    assert cloud.objects() == []


def test_batch_handlers_raw_queues_and_async_jobs_get_the_body(cloud: Cloud) -> None:
    got: list[Any] = []
    env = cloud.env()
    store = S3Payload(cloud.name, client=cloud.s3)
    for kind in ("list", "raw", "aio"):
        create_standard_queue(env, f"{cloud.name}-{kind}")
    lists = env.queue(f"{cloud.name}-list", batching_policy=BatchMessages(10), payload=store)
    lists.connect_processor("work", lambda jobs: got.extend(job["value"] for job in jobs)).delay(value=LARGE)
    raw = env.queue(f"{cloud.name}-raw", RawQueue, payload=store)
    raw.connect_raw_processor(lambda message: got.append(message.body))
    raw.add_raw_job(LARGE)

    async def work(value: str) -> None:
        job = current_job()
        assert job is not None
        assert RESERVED_ATTRIBUTE not in job.message.message_attributes
        got.append(value)

    aio = env.queue(f"{cloud.name}-aio", payload=store)
    aio.connect_processor("work", work).delay(value=LARGE)
    for queue in (lists, raw, aio):
        assert queue.process_batch().succeeded_count() == 1
    assert got == [LARGE] * 3
    assert cloud.objects() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bucket": ""}, "name of a bucket"),
        ({"threshold": MIB + 1}, "threshold"),
        ({"delete": "before"}, "delete"),
        ({"compression": "lzma"}, "compression"),
        ({"max_bytes": 0}, "max_bytes"),
    ],
)
def test_a_store_that_cannot_work_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        S3Payload(**{"bucket": "b", **options})


def test_a_store_can_be_sent_to_another_process() -> None:
    copy = pickle.loads(pickle.dumps(S3Payload("bucket", 1000, prefix="p/", allowed_buckets="other")))
    assert (copy.bucket, copy.threshold, copy.buckets) == ("bucket", 1000, {"bucket", "other"})
