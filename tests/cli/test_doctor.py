"""``doctor``: each fault is found by its name, and nothing on a sound set-up. Nothing is changed."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from sqs_workers.cli import doctor, main
from sqs_workers.cli.diagnosis.keys import check_key
from sqs_workers.cli.diagnosis.permissions import check_permissions
from sqs_workers.cli.diagnosis.signs import Sign
from sqs_workers.cli.diagnosis.topic import TopicArn, check_topic
from sqs_workers.cli.sqs import Account
from tests.servers import require_moto, reset_moto

SNS = "sns.amazonaws.com"
SIX_DAYS = str(6 * 86_400)


class Clients:
    """Clients of one endpoint, made once: loading their models takes most of the time of a test."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._known: dict[tuple[str, str], Any] = {}

    def get(self, service: str, region: str | None = None) -> Any:
        key = (service, region or "us-east-1")
        if key not in self._known:
            self._known[key] = boto3.client(
                service,
                region_name=key[1],
                endpoint_url=self._endpoint,
                aws_access_key_id="testing",
                aws_secret_access_key="testing",
            )
        return self._known[key]


class Cloud:
    """A topic, a queue that is subscribed to it, and its dead-letter queue: a sound set-up on moto."""

    def __init__(self, clients: Clients) -> None:
        self.sqs, self.sns, self.kms = (clients.get(service) for service in ("sqs", "sns", "kms"))
        self.topic: str = self.sns.create_topic(Name="orders")["TopicArn"]
        self.dead = self.queue("events-dead", MessageRetentionPeriod="1209600")
        self.redrive = {"deadLetterTargetArn": self.arn(self.dead), "maxReceiveCount": 5}
        self.url = self.queue("events", RedrivePolicy=json.dumps(self.redrive))
        self.set(Policy=json.dumps(self.policy()))
        self.subscription = self.subscribe(self.topic, self.url)

    def queue(self, name: str, **attributes: str) -> str:
        url: str = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url

    def arn(self, url: str) -> str:
        answer = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        arn: str = answer["Attributes"]["QueueArn"]
        return arn

    def set(self, **attributes: str) -> None:
        self.put(self.url, attributes)

    def put(self, url: str, attributes: dict[str, str]) -> None:
        """Set attributes; moto forgets the policy of the queue when others are set without it."""
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        self.sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
        if "Policy" not in attributes and found.get("Policy"):
            self.sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": found["Policy"]})

    def policy(self, **changes: Any) -> dict[str, Any]:
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": SNS},
            "Action": "sqs:SendMessage",
            "Resource": self.arn(self.url),
            "Condition": {"ArnEquals": {"aws:SourceArn": self.topic}},
        }
        return {"Version": "2012-10-17", "Statement": [{**statement, **changes}]}

    def subscribe(self, topic: str, url: str, raw: str = "true") -> str:
        answer = self.sns.subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint=self.arn(url), Attributes={"RawMessageDelivery": raw}
        )
        arn: str = answer["SubscriptionArn"]
        return arn

    def encrypt(self, *statements: dict[str, Any]) -> str:
        """Encrypt the queue with a key whose policy has these statements besides those of the account."""
        key: str = self.kms.create_key()["KeyMetadata"]["KeyId"]
        text = self.kms.get_key_policy(KeyId=key, PolicyName="default")["Policy"]
        policy = json.loads(text)
        policy["Statement"] += statements
        self.kms.put_key_policy(KeyId=key, PolicyName="default", Policy=json.dumps(policy))
        self.set(KmsMasterKeyId=key)
        return key

    def everything(self) -> Any:
        """All that a doctor must leave as it is."""
        queues = {}
        for url in self.sqs.list_queues()["QueueUrls"]:
            found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            queues[url] = found
        subscriptions = self.sns.list_subscriptions()["Subscriptions"]
        details = [
            self.sns.get_subscription_attributes(SubscriptionArn=found["SubscriptionArn"])["Attributes"]
            for found in subscriptions
        ]
        return queues, details


@pytest.fixture(scope="module")
def clients(moto_endpoint: str) -> Clients:
    return Clients(moto_endpoint)


@pytest.fixture
def cloud(moto_endpoint: str, clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    require_moto()
    reset_moto(moto_endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return Cloud(clients)


@pytest.fixture
def diagnose(
    cloud: Cloud, clients: Clients, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    """Run the doctor; its findings by their codes. Fails if anything was changed."""
    monkeypatch.setattr(Account, "client", lambda _: clients.get("sqs"))
    monkeypatch.setattr(Account, "client_of", lambda _, *place: clients.get(*place))

    def run(*arguments: str, queue: str = "events", topic: str | None = None) -> dict[str, Any]:
        capsys.readouterr()
        before = cloud.everything()
        code = main(["doctor", "--topic", topic or cloud.topic, "--queue", queue, "--json", *arguments])
        answer = json.loads(capsys.readouterr().out)
        assert cloud.everything() == before
        found = {sign["code"]: sign for sign in answer["signs"] if sign["code"]}
        assert all(sign["why"] and sign["mend"] for sign in found.values())
        assert code == (1 if any(sign["level"] == "error" for sign in found.values()) else 0)
        assert answer["ok"] is (code == 0)
        return found

    return run


Diagnose = Callable[..., dict[str, Any]]


def arguments_of(command: str) -> dict[str, str]:
    """Options of a command line, as a shell reads it."""
    words = shlex.split(command, comments=True)
    assert words[0] == "aws"
    return {word: words[index + 1] for index, word in enumerate(words[:-1]) if word.startswith("--")}


def mend_queue(cloud: Cloud, sign: dict[str, Any]) -> None:
    options = arguments_of(sign["mend"])
    cloud.put(options["--queue-url"], json.loads(options["--attributes"]))


def test_a_sound_set_up_has_no_findings(cloud: Cloud, diagnose: Diagnose) -> None:
    cloud.sns.publish(TopicArn=cloud.topic, Message="x")
    assert diagnose() == {}
    assert diagnose("events-dead", "--job-seconds", "20") == {}


# The policy of the queue


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("queue-policy-principal", {"Principal": {"AWS": "arn:aws:iam::123456789012:root"}}),
        ("queue-policy-principal", {"Principal": {"Service": "events.amazonaws.com"}}),
        ("queue-policy-action", {"Action": ["sqs:ReceiveMessage"]}),
        ("queue-policy-resource", {"Resource": "arn:aws:sqs:us-east-1:123456789012:other"}),
        (
            "queue-policy-condition",
            {"Condition": {"ArnEquals": {"aws:SourceArn": "arn:aws:sns:us-east-1:1:x"}}},
        ),
        ("queue-policy-condition", {"Condition": {"StringEquals": {"aws:SourceAccount": "999999999999"}}}),
        ("queue-policy-unclear", {"Condition": {"StringEquals": {"aws:SourceOrgID": "o-1"}}}),
    ],
)
def test_a_queue_policy_that_keeps_the_topic_out_is_found(
    cloud: Cloud, diagnose: Diagnose, code: str, changes: dict[str, Any]
) -> None:
    cloud.set(Policy=json.dumps(cloud.policy(**changes)))
    found = diagnose()
    assert found.keys() == {code}
    if code != "queue-policy-unclear":
        mend_queue(cloud, found[code])
        assert diagnose() == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"Principal": "*"},
        {"Principal": {"AWS": "*"}, "Action": "SQS:*", "Resource": "*"},
        {"Action": ["sqs:Send*"]},
        {"Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:sns:*:123456789012:ord*"}}},
        {
            "Condition": {
                "StringEquals": {"AWS:SourceAccount": ["1", "123456789012"]},
                "Bool": {"aws:SecureTransport": True},
            }
        },
    ],
)
def test_other_ways_to_let_the_topic_in_are_sound_too(
    cloud: Cloud, diagnose: Diagnose, changes: dict[str, Any]
) -> None:
    policy = cloud.policy(**changes)
    insecure = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": "*",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    policy["Statement"].append(insecure)
    cloud.set(Policy=json.dumps(policy))
    assert diagnose() == {}


def test_a_queue_without_a_policy_is_found(cloud: Cloud, diagnose: Diagnose) -> None:
    cloud.set(Policy="")
    found = diagnose()
    assert found.keys() == {"queue-policy-missing"}
    mend_queue(cloud, found["queue-policy-missing"])
    assert diagnose() == {}


def test_a_statement_that_denies_is_found_and_shown(cloud: Cloud, diagnose: Diagnose) -> None:
    policy = cloud.policy()
    policy["Statement"].append({**policy["Statement"][0], "Effect": "Deny", "Sid": "NoTopics"})
    cloud.set(Policy=json.dumps(policy))
    found = diagnose()
    assert found.keys() == {"queue-policy-deny"}
    assert "NoTopics" in found["queue-policy-deny"]["message"]


# Encryption


def test_the_key_that_aws_manages_is_found_and_sse_sqs_mends_it(cloud: Cloud, diagnose: Diagnose) -> None:
    cloud.set(KmsMasterKeyId="alias/aws/sqs")
    found = diagnose()
    assert found.keys() == {"aws-managed-key"}
    mend_queue(cloud, found["aws-managed-key"])
    assert diagnose() == {}


def test_a_key_whose_policy_does_not_know_sns_is_found(cloud: Cloud, diagnose: Diagnose) -> None:
    key = cloud.encrypt()
    found = diagnose()
    assert found.keys() == {"key-policy"}
    options = arguments_of(found["key-policy"]["mend"])
    cloud.kms.put_key_policy(KeyId=key, PolicyName="default", Policy=options["--policy"])
    assert diagnose() == {}


def test_a_key_that_lets_sns_only_decrypt_is_found(cloud: Cloud, diagnose: Diagnose) -> None:
    statement = {"Effect": "Allow", "Principal": {"Service": SNS}, "Action": "kms:Decrypt", "Resource": "*"}
    cloud.encrypt(statement)
    found = diagnose()
    assert found.keys() == {"key-policy"}
    assert "GenerateDataKey" in found["key-policy"]["message"]


def test_a_key_that_lets_sns_in_is_sound(cloud: Cloud, diagnose: Diagnose) -> None:
    actions = ["kms:GenerateDataKey*", "kms:Decrypt"]
    cloud.encrypt({"Effect": "Allow", "Principal": {"Service": SNS}, "Action": actions, "Resource": "*"})
    assert diagnose() == {}


def test_a_key_that_is_disabled_or_gone_is_found(cloud: Cloud, diagnose: Diagnose) -> None:
    key = cloud.encrypt()
    cloud.kms.disable_key(KeyId=key)
    assert "key-state" in diagnose()
    cloud.set(KmsMasterKeyId="alias/nobody")
    assert "key-missing" in diagnose()


# The subscription


def test_a_queue_that_is_not_subscribed_is_found(cloud: Cloud, diagnose: Diagnose) -> None:
    cloud.sns.unsubscribe(SubscriptionArn=cloud.subscription)
    found = diagnose()
    assert found.keys() == {"not-subscribed"}
    options = arguments_of(found["not-subscribed"]["mend"])
    assert options["--notification-endpoint"] == cloud.arn(cloud.url)
    cloud.subscribe(options["--topic-arn"], cloud.url)
    assert diagnose() == {}


def test_a_queue_of_the_same_name_in_another_region_is_told_apart(
    cloud: Cloud, clients: Clients, diagnose: Diagnose
) -> None:
    cloud.sns.unsubscribe(SubscriptionArn=cloud.subscription)
    other = cloud.arn(cloud.url).replace("us-east-1", "eu-west-1")
    clients.get("sqs", "eu-west-1").create_queue(QueueName="events")
    cloud.sns.subscribe(TopicArn=cloud.topic, Protocol="sqs", Endpoint=other)
    found = diagnose()
    assert found.keys() == {"subscribed-elsewhere"}
    assert other in found["subscribed-elsewhere"]["message"]


def test_a_topic_of_another_region_is_found(cloud: Cloud, clients: Clients, diagnose: Diagnose) -> None:
    there = clients.get("sns", "eu-west-1")
    topic = there.create_topic(Name="orders")["TopicArn"]
    found = diagnose(topic=topic)
    assert found.keys() == {"not-subscribed", "region", "queue-policy-condition"}
    assert "--region eu-west-1" in found["region"]["mend"]


def test_a_topic_that_is_not_there_is_found(cloud: Cloud, diagnose: Diagnose) -> None:
    assert diagnose(topic=cloud.topic + "x").keys() == {"topic-missing"}


def test_a_filter_policy_is_shown(cloud: Cloud, diagnose: Diagnose) -> None:
    def set_attribute(name: str, value: str) -> None:
        cloud.sns.set_subscription_attributes(
            SubscriptionArn=cloud.subscription, AttributeName=name, AttributeValue=value
        )

    set_attribute("FilterPolicy", '{"kind": ["paid"]}')
    found = diagnose()
    assert found.keys() == {"filter-policy"}
    assert '{"kind": ["paid"]}' in found["filter-policy"]["message"]
    assert "attributes do not match" in found["filter-policy"]["why"]
    options = arguments_of(found["filter-policy"]["mend"])
    set_attribute(options["--attribute-name"], options["--attribute-value"])
    assert diagnose() == {}


def test_a_subscription_without_raw_delivery_is_told(cloud: Cloud, diagnose: Diagnose) -> None:
    cloud.sns.unsubscribe(SubscriptionArn=cloud.subscription)
    cloud.subscribe(cloud.topic, cloud.url, raw="false")
    assert diagnose().keys() == {"raw-delivery"}


def test_a_fifo_topic_to_a_standard_queue_is_told(cloud: Cloud, diagnose: Diagnose) -> None:
    cloud.topic = cloud.sns.create_topic(Name="orders.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    cloud.set(Policy=json.dumps(cloud.policy()))
    cloud.subscribe(cloud.topic, cloud.url)
    assert diagnose().keys() == {"fifo-to-standard"}


def test_a_standard_topic_to_a_fifo_queue_is_found(cloud: Cloud, diagnose: Diagnose) -> None:
    cloud.queue("events.fifo", FifoQueue="true")
    found = diagnose(queue="events.fifo")
    assert {"standard-to-fifo", "not-subscribed"} <= found.keys()


# The queue


@pytest.mark.parametrize(
    ("seconds", "codes"),
    [("29", set()), ("30", {"visibility-too-short"}), ("50000", {"job-too-long"})],
)
def test_a_visibility_timeout_shorter_than_the_jobs_is_found(
    cloud: Cloud, diagnose: Diagnose, seconds: str, codes: set[str]
) -> None:
    found = diagnose("--job-seconds", seconds)
    assert found.keys() == codes
    if "visibility-too-short" in codes:
        mend_queue(cloud, found["visibility-too-short"])
        assert diagnose("--job-seconds", seconds) == {}


def test_the_timeouts_of_an_environment_say_how_long_jobs_run(
    cloud: Cloud, diagnose: Diagnose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "doctored.py").write_text(
        "from sqs_workers import SQSEnv\n"
        "sqs = SQSEnv(codec='json', timeout=20)\n"
        "@sqs.queue('events').processor('slow', timeout=90)\n"
        "def slow(): ...\n"
        "@sqs.queue('others').processor('fast')\n"
        "def fast(): ...\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    found = diagnose("--app", "doctored:sqs")
    assert found.keys() == {"visibility-too-short"}
    assert "90 s" in found["visibility-too-short"]["message"]
    cloud.set(VisibilityTimeout="100")
    assert diagnose("--app", "doctored:sqs") == {}


def test_a_short_visibility_timeout_is_told(cloud: Cloud, diagnose: Diagnose) -> None:
    cloud.set(VisibilityTimeout="5")
    assert diagnose().keys() == {"visibility-short"}


@pytest.mark.parametrize("queue", ["events", "events-dead"])
def test_a_dead_letter_queue_that_keeps_messages_for_less_long_is_found_from_both_sides(
    cloud: Cloud, diagnose: Diagnose, capsys: pytest.CaptureFixture[str], queue: str
) -> None:
    cloud.sqs.set_queue_attributes(QueueUrl=cloud.dead, Attributes={"MessageRetentionPeriod": SIX_DAYS})
    assert diagnose() == {}
    cloud.set(MessageRetentionPeriod="1209600")
    capsys.readouterr()
    assert main(["doctor", queue, "--json"]) == 1
    signs = [sign for sign in json.loads(capsys.readouterr().out)["signs"] if sign["code"]]
    assert [sign["code"] for sign in signs] == ["retention"]
    mend_queue(cloud, signs[0])
    assert diagnose() == {}


def test_an_allow_policy_that_keeps_the_queue_out_is_found(
    client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["create", "events", "--dead-letter", "dead"])
    main(["create", "other"])
    url = {name: client.get_queue_url(QueueName=name)["QueueUrl"] for name in ("events", "dead", "other")}
    other = client.get_queue_attributes(QueueUrl=url["other"], AttributeNames=["QueueArn"])["Attributes"]
    allow = {"redrivePermission": "byQueue", "sourceQueueArns": [other["QueueArn"]]}
    client.set_queue_attributes(QueueUrl=url["dead"], Attributes={"RedriveAllowPolicy": json.dumps(allow)})
    capsys.readouterr()
    assert main(["doctor", "events", "--json"]) == 1
    (sign,) = [sign for sign in json.loads(capsys.readouterr().out)["signs"] if sign["code"]]
    assert sign["code"] == "redrive-not-allowed"
    options = arguments_of(sign["mend"])
    client.set_queue_attributes(
        QueueUrl=options["--queue-url"], Attributes=json.loads(options["--attributes"])
    )
    assert main(["doctor", "events"]) == 0


def test_a_queue_without_a_redrive_policy_is_told(cloud: Cloud, diagnose: Diagnose) -> None:
    cloud.queue("other")
    assert "no-redrive-policy" in diagnose(queue="other")


def test_a_redrive_policy_of_one_receive_is_told(cloud: Cloud, diagnose: Diagnose) -> None:
    cloud.set(RedrivePolicy=json.dumps({**cloud.redrive, "maxReceiveCount": 1}))
    found = diagnose()
    assert found.keys() == {"one-receive"}
    mend_queue(cloud, found["one-receive"])
    assert diagnose() == {}


def test_a_dead_letter_queue_that_is_gone_is_found(cloud: Cloud, diagnose: Diagnose) -> None:
    cloud.sqs.delete_queue(QueueUrl=cloud.dead)
    found = diagnose()
    assert found.keys() == {"dead-letter-queue-missing"}
    assert "sqs-workers create events-dead" in found["dead-letter-queue-missing"]["mend"]


@pytest.mark.parametrize(("name", "dead"), [("plain", "plain-dead"), ("orders.fifo", "orders-dead.fifo")])
def test_the_dead_letter_queue_that_is_proposed_is_one_that_sqs_would_take(
    cloud: Cloud, diagnose: Diagnose, name: str, dead: str
) -> None:
    fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
    cloud.sqs.create_queue(QueueName=name, Attributes=fifo)
    mend = diagnose(queue=name)["no-redrive-policy"]["mend"]
    create, _, policy = mend.partition(" && ")
    assert create == f"sqs-workers create {dead}"
    assert f":{dead}" in policy


def test_a_queue_that_is_not_there_is_found(cloud: Cloud, diagnose: Diagnose) -> None:
    assert diagnose(queue="absent").keys() == {"queue-missing"}


def test_people_read_what_why_and_how_to_mend_it(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    cloud.set(KmsMasterKeyId="alias/aws/sqs")
    assert main(["doctor", "--topic", cloud.topic, "--queue", "events"]) == 1
    told = capsys.readouterr().out
    assert "error   events: encrypted with the key alias/aws/sqs" in told
    assert "[aws-managed-key]" in told
    assert "why: SNS may not use that key" in told
    assert "mend: aws sqs set-queue-attributes" in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["--topic", "orders", "--queue", "events"],
        ["--topic", "arn:aws:sqs:us-east-1:123456789012:events", "--queue", "events"],
        ["--topic", "arn:aws:sns:us-east-1:123456789012:orders"],
        ["--app", "nothing_like_it:sqs", "events"],
    ],
)
def test_a_wrong_option_is_a_usage_error(endpoint: str, arguments: list[str]) -> None:
    assert main(["doctor", *arguments]) == 2


# What emulators do not know: permissions, and subscriptions that wait


class Refusing:
    """A client that answers as AWS does to credentials without some permissions."""

    def __init__(self, *denied: str) -> None:
        self._denied = denied
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            self.calls.append((name, request))
            if name in self._denied:
                raise aws_error("AccessDenied", 403)
            if name == "list_dead_letter_source_queues":
                return {"queueUrls": []}
            if name == "generate_data_key":
                raise aws_error("DryRunOperationException", 412)
            raise aws_error("AWS.SimpleQueueService.EmptyBatchRequest", 400)

        return call


def aws_error(code: str, status: int) -> ClientError:
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "Operation")


def permissions(*denied: str, **attributes: str) -> tuple[list[Sign], Refusing]:
    client = Refusing(*denied)
    found = {"QueueArn": "arn:aws:sqs:us-east-1:1:q", **attributes}
    return list(check_permissions(client, lambda: client, "q", "https://sqs/1/q", found)), client


@pytest.mark.parametrize(
    ("method", "action"),
    [
        ("send_message_batch", "sqs:SendMessage"),
        ("receive_message", "sqs:ReceiveMessage"),
        ("delete_message_batch", "sqs:DeleteMessage"),
        ("change_message_visibility_batch", "sqs:ChangeMessageVisibility"),
        ("list_dead_letter_source_queues", "sqs:ListDeadLetterSourceQueues"),
        ("generate_data_key", "kms:GenerateDataKey"),
    ],
)
def test_a_missing_permission_is_named(method: str, action: str) -> None:
    signs, _ = permissions(method, KmsMasterKeyId="key-1")
    (found,) = [sign for sign in signs if sign.code == "permission"]
    assert action in found.message
    assert f'"{action}"' in found.mend


def test_permissions_are_tried_with_calls_that_change_nothing() -> None:
    signs, client = permissions(KmsMasterKeyId="key-1")
    assert [sign.level for sign in signs] == ["ok"]
    requests = dict(client.calls)
    for name in ("send_message_batch", "delete_message_batch", "change_message_visibility_batch"):
        assert requests[name]["Entries"] == []
    assert requests["receive_message"]["MaxNumberOfMessages"] == 0
    assert requests["generate_data_key"]["DryRun"] is True


@pytest.mark.parametrize("emulator", ["moto_endpoint", "ministack_endpoint", "local_endpoint"])
def test_a_doctor_leaves_messages_unreceived(
    emulator: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = request.getfixturevalue(emulator)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    client = boto3.client("sqs")
    queue = client.create_queue(QueueName="untouched")["QueueUrl"]
    client.send_message(QueueUrl=queue, MessageBody="x")
    assert main(["doctor", "untouched"]) == 0
    answer = client.receive_message(QueueUrl=queue, AttributeNames=["All"])
    (message,) = answer["Messages"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    client.delete_queue(QueueUrl=queue)


ARN = "arn:aws:sqs:us-east-1:222222222222:events"
TOPIC = "arn:aws:sns:us-east-1:111111111111:orders"


class RecordedTopic:
    """SNS as it answers about subscriptions that emulators confirm at once."""

    def __init__(self, subscription: dict[str, str], details: dict[str, str] | Exception) -> None:
        self._subscription = subscription
        self._details = details

    def get_topic_attributes(self, **request: Any) -> Any:
        return {"Attributes": {"TopicArn": TOPIC}}

    def get_paginator(self, operation: str) -> Any:
        return self

    def paginate(self, **request: Any) -> Any:
        return [{"Subscriptions": [self._subscription]}]

    def get_subscription_attributes(self, **request: Any) -> Any:
        if isinstance(self._details, Exception):
            raise self._details
        return {"Attributes": self._details}


def of_topic(sns: Any, **attributes: str) -> set[str]:
    found = {"QueueArn": ARN, **attributes}
    url = "https://sqs.us-east-1.amazonaws.com/222222222222/events"
    signs = check_topic(sns, lambda: None, TopicArn.parse(TOPIC), "events", url, found)
    return {sign.code for sign in signs if sign.code}


@pytest.mark.parametrize(
    ("arn", "details"),
    [("PendingConfirmation", {}), (f"{TOPIC}:1", {"PendingConfirmation": "true"})],
)
def test_a_subscription_that_waits_for_its_confirmation_is_found(arn: str, details: dict[str, str]) -> None:
    subscription = {"SubscriptionArn": arn, "Protocol": "sqs", "Endpoint": ARN}
    assert "not-confirmed" in of_topic(RecordedTopic(subscription, details))


def test_a_topic_of_another_account_is_found() -> None:
    other = {"SubscriptionArn": f"{TOPIC}:1", "Protocol": "sqs", "Endpoint": "arn:aws:sqs:us-east-1:1:x"}
    assert {"not-subscribed", "account"} <= of_topic(RecordedTopic(other, {}))


def test_what_may_not_be_looked_at_is_no_error_but_told() -> None:
    subscription = {"SubscriptionArn": f"{TOPIC}:1", "Protocol": "sqs", "Endpoint": ARN}
    sns = RecordedTopic(subscription, aws_error("AuthorizationError", 403))
    assert of_topic(sns) == {"topic-unseen", "queue-policy-missing"}


class RecordedKeys:
    """KMS as it answers to credentials without permission, and about keys that AWS manages."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self._answer = answer

    def describe_key(self, **request: Any) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return {"KeyMetadata": self._answer}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (aws_error("AccessDeniedException", 400), "key-unseen"),
        ({"KeyId": "1", "KeyManager": "AWS", "KeyState": "Enabled"}, "aws-managed-key"),
        ({"KeyId": "1", "KeyManager": "CUSTOMER", "KeyState": "PendingDeletion"}, "key-state"),
    ],
)
def test_a_key_is_judged_by_what_kms_says(answer: Any, code: str) -> None:
    keys: Any = RecordedKeys(answer)
    (sign,) = check_key(lambda: keys, "q", "https://sqs/1/q", {"KmsMasterKeyId": "key-1"}, {})
    assert sign.code == code


# The page


def test_the_page_lists_every_finding() -> None:
    source = Path(doctor.__file__).parent
    text = "".join(
        path.read_text(encoding="utf-8")
        for path in [source / "doctor.py", *(source / "diagnosis").glob("*.py")]
    )
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")
    codes = set(
        re.findall(r'^\s+"([a-z]+(?:-[a-z]+)+|permission|region|account|retention)",?\)?$', text, re.M)
    )
    assert len(codes) > 25
    missing = sorted(code for code in codes if f"| `{code}` |" not in page)
    assert not missing
