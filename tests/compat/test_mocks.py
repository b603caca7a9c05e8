"""How unit tests of applications stand in for AWS."""

from __future__ import annotations

from typing import Any
from unittest import mock

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import ANY, Stubber

from sqs_workers import JobQueue, MemorySession, SQSEnv, create_standard_queue, delete_queue
from sqs_workers.memory_sqs import MemoryAWS
from sqs_workers.queue import SQSBatchError
from sqs_workers.shutdown_policies import MaxTasksShutdown


def test_mock_aws_with_the_default_session(aws: Any) -> None:
    env = SQSEnv()
    create_standard_queue(env, "emails")
    queue = env.queue("emails")
    queue.processor("job")(lambda n: None)
    with queue.add_batch():
        for n in range(12):
            queue.add_job("job", n=n)
    done = 0
    while done < 12:
        done += queue.process_batch().succeeded_count()
    assert boto3.client("sqs").list_queues()["QueueUrls"]


def test_a_client_and_a_resource_given_are_used(aws: Any) -> None:
    client, resource = aws.client("sqs"), aws.resource("sqs")
    env = SQSEnv(sqs_client=client, sqs_resource=resource)
    assert env.sqs_client is client
    assert env.sqs_resource is resource
    create_standard_queue(env, "emails")
    assert env.get_all_known_queues() == ["emails"]


def test_mocks_as_client_and_resource() -> None:
    client, resource = mock.MagicMock(), mock.MagicMock()
    resource.get_queue_by_name.return_value.send_message.return_value = {"MessageId": "id-1"}
    client.create_queue.return_value = {"QueueUrl": "https://queue"}
    env = SQSEnv(session=mock.Mock(), sqs_client=client, sqs_resource=resource)
    assert create_standard_queue(env, "emails") == "https://queue"
    assert client.create_queue.call_args.kwargs["QueueName"] == "emails"
    assert env.queue("emails").add_job("job", n=1) == "id-1"
    (call,) = resource.get_queue_by_name.return_value.send_message.call_args_list
    assert call.kwargs["MessageAttributes"]["JobName"] == {"StringValue": "job", "DataType": "String"}
    resource.get_queue_by_name.assert_called_with(QueueName="emails")


def test_a_mock_session() -> None:
    session = mock.MagicMock()
    env = SQSEnv(session)
    session.resource.return_value.get_queue_by_name.return_value.send_message.return_value = {
        "MessageId": "1"
    }
    assert env.queue("emails").add_job("job") == "1"
    assert env.sqs_client is session.client.return_value
    assert env.sqs_resource is session.resource.return_value
    assert session.client.call_args.args == ("sqs",)
    assert session.client.call_args.kwargs["config"].retries["mode"] == "standard"


def test_get_queue_is_patched(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    with mock.patch.object(queue, "get_queue") as get_queue:
        get_queue.return_value.send_message.return_value = {"MessageId": "1"}
        assert queue.add_job("job", n=1) == "1"
        get_queue.return_value.send_messages.return_value = {"Successful": [], "Failed": []}
        with queue.add_batch():
            queue.add_job("job", n=1)
        entries = get_queue.return_value.send_messages.call_args.kwargs["Entries"]
        assert [entry["MessageAttributes"]["JobName"]["StringValue"] for entry in entries] == ["job"]


def test_the_queue_of_a_queue_is_replaced(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    queue._queue = mock.Mock()
    queue._queue.send_message.return_value = {"MessageId": "1"}
    assert queue.get_queue() is queue._queue
    assert queue.add_job("job", n=1) == "1"


def test_messages_of_a_mock_are_processed(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    seen = []
    queue.processor("job")(lambda n: seen.append(n))
    message = mock.Mock(
        message_id="m1",
        receipt_handle="r1",
        body='{"n": 1}',
        attributes={"ApproximateReceiveCount": "1"},
        message_attributes={
            "JobName": {"StringValue": "job", "DataType": "String"},
            "ContentType": {"StringValue": "json", "DataType": "String"},
        },
    )
    with mock.patch.object(queue, "get_queue") as get_queue:
        get_queue.return_value.receive_messages.return_value = [message]
        get_queue.return_value.delete_messages.return_value = {"Successful": [{"Id": "m1"}]}
        result = queue.process_batch()
        get_queue.return_value.delete_messages.assert_called_once_with(
            Entries=[{"Id": "m1", "ReceiptHandle": "r1"}]
        )
    assert seen == [1]
    assert result.succeeded_count() == 1


def test_process_message_is_called_with_a_mock(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    seen = []
    queue.processor("job")(lambda n: seen.append(n))
    message = mock.Mock(
        body='{"n": 1}',
        message_attributes={
            "JobName": {"StringValue": "job"},
            "ContentType": {"StringValue": "json"},
        },
    )
    assert queue.process_message(message) is True
    assert queue.processors["job"].process_message(message) is True
    assert queue.process_messages([]) is True
    assert seen == [1, 1]


def test_a_stubber_on_the_clients_of_the_environment(aws: Any) -> None:
    env = SQSEnv(aws)
    with Stubber(env.sqs_client) as stubber:
        stubber.add_response("list_queues", {"QueueUrls": ["https://sqs/1/a", "https://sqs/1/b"]}, None)
        assert env.get_all_known_queues() == ["a", "b"]


def test_a_stubber_on_the_client_of_the_resource(aws: Any) -> None:
    env = SQSEnv(aws)
    with Stubber(env.sqs_resource.meta.client) as stubber:
        stubber.add_response("get_queue_url", {"QueueUrl": "https://sqs/1/emails"}, {"QueueName": "emails"})
        stubber.add_response(
            "send_message",
            {"MessageId": "1"},
            {"QueueUrl": "https://sqs/1/emails", "MessageBody": ANY, "MessageAttributes": ANY},
        )
        assert env.queue("emails").add_job("job", n=1) == "1"
        stubber.assert_no_pending_responses()


def test_delay_of_a_task_is_patched(sqs: SQSEnv) -> None:
    task = sqs.queue("emails").processor("job")(lambda n: None)
    with mock.patch.object(task, "delay") as delay:
        task.delay(n=1)
        delay.assert_called_once_with(n=1)


def test_add_job_of_a_queue_is_patched_and_sees_what_delay_sends(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    task = queue.processor("job")(lambda n: None)
    with mock.patch.object(queue, "add_job", return_value="x") as add_job:
        assert task.delay(5, _delay_seconds=3) == "x"
    assert add_job.call_args.args == ("job",)
    assert add_job.call_args.kwargs["n"] == 5
    assert add_job.call_args.kwargs["_delay_seconds"] == 3


def test_mock_functions_are_processors(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    handler = mock.Mock(__module__="m", __name__="handler")
    queue.connect_processor("job", handler)
    queue.add_job("job", n=1)
    assert queue.process_batch().succeeded_count() == 1
    handler.assert_called_once_with(n=1)


def test_the_function_of_a_processor_is_patched(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    queue.processor("job")(lambda n: None)
    with mock.patch.object(queue.processors["job"], "fn") as fn:
        queue.add_job("job", n=1)
        queue.process_batch()
    fn.assert_called_once_with(n=1)


def test_failed_entries_of_a_batch_are_in_the_error(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    with mock.patch.object(queue, "get_queue") as get_queue:

        def refuse(Entries: Any) -> Any:
            failed = [
                {"Id": e["Id"], "Code": "InvalidMessageContents", "Message": "no", "SenderFault": True}
                for e in Entries
            ]
            return {"Successful": [], "Failed": failed}

        get_queue.return_value.send_messages.side_effect = refuse
        with pytest.raises(SQSBatchError) as caught, queue.add_batch():
            queue.add_job("job", _content_type="json", n=1)
    (error,) = caught.value.errors
    assert error["Code"] == "InvalidMessageContents"
    assert error["_message"]["MessageBody"] == '{"n": 1}'


def test_the_memory_session_is_made_of_parts() -> None:
    aws = MemoryAWS()
    session = MemorySession(aws)
    assert session.aws is aws
    assert session.client("sqs") is not None
    env = SQSEnv(MemorySession(aws=aws))
    create_standard_queue(env, "emails")
    env.queue("emails").add_job("job")
    assert SQSEnv(MemorySession(aws)).get_all_known_queues() == ["emails"]
    assert repr(session) == "MemorySession()"


def test_two_environments_share_a_memory_session() -> None:
    session = MemorySession()
    web, worker = SQSEnv(session), SQSEnv(session)
    create_standard_queue(web, "emails")
    seen = []
    worker.processor("emails", "job")(lambda n: seen.append(n))
    web.queue("emails").add_job("job", n=1)
    worker.queue("emails").process_batch()
    assert seen == [1]


def test_a_subclass_may_find_its_queue_itself(session: Any) -> None:
    class Shared(JobQueue):
        def get_queue(self) -> Any:
            if self._queue is None:
                self._queue = self.env.sqs_resource.get_queue_by_name(QueueName=f"shared-{self.name}")
            return self._queue

    env = SQSEnv(session)
    create_standard_queue(env, "shared-emails")
    queue = env.queue("emails", Shared)
    seen = []
    task = queue.processor("job")(lambda n: seen.append(n))
    task.delay(n=1)
    with task.batch():
        task.delay(n=2)
    while len(seen) < 2:
        assert queue.process_batch().succeeded_count()
    assert sorted(seen) == [1, 2]
    task.delay(n=3)
    queue.process_queue(shutdown_policy=MaxTasksShutdown(1), wait_second=0)
    assert queue.drain_queue() == 0


def test_methods_of_the_queue_object_are_patched(aws: Any) -> None:
    env = SQSEnv(aws)
    create_standard_queue(env, "emails")
    queue = env.queue("emails")
    with mock.patch.object(queue.get_queue(), "send_message", return_value={"MessageId": "1"}) as send:
        assert queue.add_job("job", n=1) == "1"
    assert send.call_args.kwargs["MessageAttributes"]["JobName"]["StringValue"] == "job"
    assert queue.get_raw_messages(0) == []
    assert queue.add_job("job", n=1) != "1"


def test_get_queue_is_patched_on_the_class(sqs: SQSEnv) -> None:
    with mock.patch.object(JobQueue, "get_queue") as get_queue:
        get_queue.return_value.send_message.return_value = {"MessageId": "1"}
        assert sqs.queue("emails").add_job("job") == "1"
    assert sqs.queue("emails").add_job("job") != "1"


def test_get_raw_messages_is_patched(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    seen = []
    queue.processor("job")(lambda n: seen.append(n))
    queue.add_job("job", n=1)
    messages = queue.get_raw_messages(0)
    with mock.patch.object(queue, "get_raw_messages", return_value=messages):
        assert queue.process_batch().succeeded_count() == 1
    assert seen == [1]
    assert queue.drain_queue() == 0


def test_a_subclass_may_receive_by_rules_of_its_own(sqs: SQSEnv) -> None:
    class One(JobQueue):
        def get_raw_messages(self, wait_seconds: int, max_messages: int = 10) -> Any:
            asked.append((wait_seconds, max_messages))
            return super().get_raw_messages(wait_seconds, 1)

    asked: list[Any] = []
    queue = sqs.queue("emails", One)
    queue.processor("job")(lambda n: None)
    for n in range(3):
        queue.add_job("job", n=n)
    assert queue.process_batch().succeeded_count() == 1
    queue.process_queue(shutdown_policy=MaxTasksShutdown(2), wait_second=0)
    assert asked[0][0] == 0
    assert queue.drain_queue() == 0


def test_a_magic_mock_needs_no_answers(sqs: SQSEnv) -> None:
    queue = sqs.queue("emails")
    with mock.patch.object(queue, "get_queue") as get_queue:
        queue.add_job("job", n=1)
        get_queue.return_value.receive_messages.return_value = []
        assert queue.process_batch().total_count() == 0
        assert queue.drain_queue() == 0
    assert get_queue.return_value.send_message.called


def test_the_client_of_a_resource_given_alone_is_used(aws: Any) -> None:
    resource = aws.resource("sqs", region_name="eu-west-1")
    resource.create_queue(QueueName="emails")
    queue = SQSEnv(aws, sqs_resource=resource).queue("emails")
    queue.processor("job")(lambda: None)
    queue.add_job("job")
    assert "eu-west-1" in queue.get_queue().url
    assert queue.process_batch().succeeded_count() == 1


def test_a_missing_queue_is_caught_as_botocores_error(aws: Any) -> None:
    env = SQSEnv(aws)
    with pytest.raises(ClientError) as caught:
        env.queue("nowhere").add_job("job")
    assert caught.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    with pytest.raises(ClientError):
        delete_queue(env, "nowhere")


def test_a_queue_with_other_attributes_is_caught_as_botocores_error(aws: Any) -> None:
    env = SQSEnv(aws)
    create_standard_queue(env, "emails", visibility_timeout=10)
    with pytest.raises(ClientError):
        create_standard_queue(env, "emails", visibility_timeout=20)
