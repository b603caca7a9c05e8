"""What is asked of EventBridge Scheduler, held against AWS's own description of its API and of ``SendMessage``.

No emulator runs universal targets. So each request is checked with the patterns, lengths and values of the
service's model, which botocore itself does not check, and its ``Input`` as the request that AWS will make of it.

https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html
https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-schedule-context-attributes.html
"""

from __future__ import annotations

import base64
import json
import re
from datetime import timedelta
from typing import Any

import botocore.session
import pytest
from botocore.stub import ANY, Stubber
from botocore.validate import ParamValidator

from sqs_workers import MemorySession, SQSEnv, create_fifo_queue, create_standard_queue
from sqs_workers.cron import Cron
from sqs_workers.exceptions import ConfigurationError, SendError
from sqs_workers.limits import MAX_LONG_DELAY_SECONDS
from sqs_workers.queue import RawQueue
from sqs_workers.s3_payload import S3Payload
from sqs_workers.schedules import EventBridgeScheduler, sync_schedules

ROLE = "arn:aws:iam::123456789012:role/service/shop.scheduler_1"
SESSION = botocore.session.get_session()


class Service:
    """A real client of Scheduler whose requests are checked and go nowhere."""

    def __init__(self) -> None:
        self.client = SESSION.create_client(
            "scheduler", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="y"
        )
        self.stubber = Stubber(self.client)
        self.requests: list[dict[str, Any]] = []
        self.client.meta.events.register_first("before-parameter-build.scheduler.*", self._keep)
        scheduler = EventBridgeScheduler("shop-prod", role_arn=ROLE, client=self.client)
        self.env = SQSEnv(MemorySession(), codec="json", scheduler=scheduler)
        create_standard_queue(self.env, "jobs")
        create_fifo_queue(self.env, "jobs.fifo")

    def _keep(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        check_shape(params, model.input_shape)
        if model.name == "CreateSchedule":
            self.requests.append(params)

    def takes(self, count: int, *, found: bool | None = None) -> None:
        for _ in range(count):
            if found is False:
                self.stubber.add_client_error(
                    "get_schedule", "ResourceNotFoundException", http_status_code=404
                )
        for _ in range(count):
            self.stubber.add_response(
                "create_schedule", {"ScheduleArn": "arn:aws:scheduler:eu-west-1:123456789012:schedule/g/n"}
            )
        self.stubber.activate()

    def inputs(self) -> list[dict[str, Any]]:
        """What AWS will ask of SQS, each checked as such."""
        return [check_input(request) for request in self.requests]


def check_shape(value: Any, shape: Any, where: str = "") -> None:
    """Hold a value against lengths, patterns and values of a shape of the model."""
    if shape.type_name == "structure":
        for name, member in value.items():
            check_shape(member, shape.members[name], f"{where}.{name}")
    elif shape.type_name == "string":
        rules = shape.metadata
        assert rules.get("min", 0) <= len(value) <= rules.get("max", 262_144), where
        assert not rules.get("enum") or value in rules["enum"], (where, value)
        if rules.get("pattern"):
            assert re.fullmatch(rules["pattern"], value), (where, value)


def check_input(request: dict[str, Any]) -> dict[str, Any]:
    """The parameters of ``SendMessage`` in a request's target, as SQS's own model takes them."""
    target = request["Target"]
    assert target["Arn"] == "arn:aws:scheduler:::aws-sdk:sqs:sendMessage"
    assert target["RoleArn"] == ROLE
    found: dict[str, Any] = json.loads(target["Input"])
    for attribute in found.get("MessageAttributes", {}).values():
        if "BinaryValue" in attribute:
            attribute["BinaryValue"] = base64.b64decode(attribute["BinaryValue"], validate=True)
    shape = SESSION.get_service_model("sqs").operation_model("SendMessage").input_shape
    report = ParamValidator().validate(found, shape)
    assert not report.has_errors(), report.generate_report()
    # The schedule is the delay.
    assert "DelaySeconds" not in found
    return found


def test_the_model_would_object() -> None:
    shape = SESSION.get_service_model("scheduler").operation_model("CreateSchedule").input_shape
    with pytest.raises(AssertionError):
        check_shape({"Name": "a name"}, shape)
    with pytest.raises(AssertionError):
        check_shape({"ScheduleExpression": "x" * 257}, shape)
    with pytest.raises(AssertionError):
        check_shape({"State": "ON"}, shape)


@pytest.mark.parametrize("delay", [901, timedelta(days=30), MAX_LONG_DELAY_SECONDS])
def test_a_delayed_job_is_a_schedule_that_aws_takes(delay: Any) -> None:
    service = Service()
    service.takes(1)
    task = service.env.queue("jobs").connect_processor("work", lambda text: None)
    task.options(delay=delay).delay('"<aws.scheduler.execution-id>" é \U0001f600')
    [request] = service.requests
    assert re.fullmatch(r"at\(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\)", request["ScheduleExpression"])
    assert request["ActionAfterCompletion"] == "DELETE"
    [sent] = service.inputs()
    assert json.loads(sent["MessageBody"]) == {"text": '"<aws.scheduler.execution-id>" é \U0001f600'}
    # What the service would replace is not in its input as it looks for it.
    assert "<" not in request["Target"]["Input"]


def test_messages_of_fifo_queues_and_with_bytes_are_schedules_that_aws_takes() -> None:
    service = Service()
    service.takes(2)
    fifo = service.env.queue("jobs.fifo", RawQueue)
    fifo.add_raw_job("x", delay_seconds=60, group_id="g", deduplication_id="d")
    raw = service.env.queue("jobs", RawQueue)
    raw.add_raw_job("x", 1000, attributes={"Picture": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}})
    one, other = service.inputs()
    assert (one["MessageGroupId"], one["MessageDeduplicationId"]) == ("g", "d")
    assert service.requests[0]["ScheduleExpression"].endswith(":00)")
    assert other["MessageAttributes"]["Picture"] == {"DataType": "Binary", "BinaryValue": b"\x00\xff"}


@pytest.mark.parametrize(
    ("when", "expression"),
    [
        ({"every": 60}, "rate(1 minute)"),
        ({"every": 7200}, "rate(2 hours)"),
        ({"cron": "30 2 * * *", "timezone": "America/Argentina/Buenos_Aires"}, "cron(30 2 * * ? *)"),
        ({"cron": "0-58 0-22 1-30 * *"}, "cron(0-58 0-22 1-30 * ? *)"),
        ({"cron": "*/15 8-18/2 * * MON-FRI"}, "cron(0,15,30,45 8,10,12,14,16,18 ? * MON,TUE,WED,THU,FRI *)"),
    ],
)
@pytest.mark.parametrize("name", ["jobs", "jobs.fifo"])
def test_a_declared_schedule_is_one_that_aws_takes(name: str, when: dict[str, Any], expression: str) -> None:
    service = Service()
    queue = service.env.queue(name)
    fifo = {"group_id": "g"} if name.endswith(".fifo") else {}
    task = queue.connect_processor("report", lambda kind: None)
    queue.periodic(args={"kind": "<b>"}, **when, **fifo)(task)
    service.takes(1, found=False)
    service.stubber.add_response("list_schedules", {"Schedules": []}, {"GroupName": ANY, "NamePrefix": ANY})
    # Asked for in this order: what is there, what else is there, then what is missing is made.
    queued = service.stubber._queue
    queued.insert(1, queued.pop())
    sync_schedules(service.env)
    [request] = service.requests
    assert request["ScheduleExpression"] == expression
    [sent] = service.inputs()
    mark = "<aws.scheduler.scheduled-time>"
    assert sent["MessageAttributes"]["StableId"]["StringValue"].endswith(f"report@{mark}")
    assert request["Target"]["Input"].count("<") == request["Target"]["Input"].count(mark)
    if fifo:
        assert sent["MessageDeduplicationId"].endswith(f"report@{mark}")


def test_a_schedule_that_stays_carries_its_body_and_does_not_share_an_object() -> None:
    service = Service()
    # Every body goes to S3, and each object goes with the job that was done.
    store = S3Payload("bodies", 0, client=None)
    queue = service.env.queue("jobs", payload=store)
    task = queue.connect_processor("report", lambda kind: None)
    queue.periodic(every=60, args={"kind": "daily"})(task)
    service.takes(1, found=False)
    service.stubber.add_response("list_schedules", {"Schedules": []}, {"GroupName": ANY, "NamePrefix": ANY})
    service.stubber._queue.insert(1, service.stubber._queue.pop())
    sync_schedules(service.env)
    [sent] = service.inputs()
    assert json.loads(sent["MessageBody"]) == {"kind": "daily"}


def test_a_group_that_does_not_exist_is_named_with_the_command_that_makes_it() -> None:
    service = Service()
    task = service.env.queue("jobs").connect_processor("report", lambda: None)
    how = "aws scheduler create-schedule-group --name shop-prod"
    service.stubber.add_client_error("create_schedule", "ResourceNotFoundException", http_status_code=404)
    with service.stubber, pytest.raises(SendError, match=how):
        task.options(delay=1000).delay()
    service.env.queue("jobs").periodic(every=60)(task)
    service.stubber.add_client_error("get_schedule", "ResourceNotFoundException", http_status_code=404)
    service.stubber.add_response("list_schedules", {"Schedules": []})
    service.stubber.add_client_error("create_schedule", "ResourceNotFoundException", http_status_code=404)
    with service.stubber, pytest.raises(ConfigurationError, match=how):
        sync_schedules(service.env)


def test_an_expression_that_is_too_long_is_refused_before_anything_is_made() -> None:
    service = Service()
    queue = service.env.queue("jobs")
    task = queue.connect_processor("report", lambda: None)
    long = "0-28,30-59 0-10,12-23 1-14,16-31 * *"
    assert len(Cron(long).for_eventbridge()) > 256
    queue.periodic(cron=long)(task)
    with pytest.raises(ConfigurationError, match="256"):
        sync_schedules(service.env)
    assert service.requests == []
