"""EventBridge Scheduler over MiniStack: one-time schedules, schedules that stay, and the command.

MiniStack keeps schedules and knows when they are due, but not the universal target by which AWS calls
``SendMessage``: here the test makes that call, with what the schedule says.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import types
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sqs_workers import SQSEnv, create_fifo_queue, create_standard_queue, current_job
from sqs_workers.cli import main
from sqs_workers.delays import NOT_BEFORE, STABLE_ID
from sqs_workers.exceptions import ConfigurationError, InvalidMessageError, SendError
from sqs_workers.queue import RawQueue
from sqs_workers.schedules import EventBridgeScheduler, sync_schedules
from sqs_workers.sql import Outbox
from tests.servers import boto_session

pytestmark = pytest.mark.wire

ROLE = "arn:aws:iam::000000000000:role/scheduler"
TARGET = "arn:aws:scheduler:::aws-sdk:sqs:sendMessage"
HOUR = 3600


@dataclass
class Cloud:
    """SQS and Scheduler at one endpoint, with a group and queues of one test's own."""

    env: SQSEnv
    scheduler: EventBridgeScheduler
    client: Any
    group: str

    def names(self) -> set[str]:
        return {found["Name"] for found in self.client.list_schedules(GroupName=self.group)["Schedules"]}

    def schedules(self) -> dict[str, dict[str, Any]]:
        return {name: self.client.get_schedule(Name=name, GroupName=self.group) for name in self.names()}

    def fire(self, name: str, moment: str = "2030-01-01T00:00:00Z") -> None:
        """Do what the service does when a schedule is due."""
        schedule = self.client.get_schedule(Name=name, GroupName=self.group)
        assert schedule["Target"]["Arn"] == TARGET
        text = schedule["Target"]["Input"].replace("<aws.scheduler.scheduled-time>", moment)
        assert "<aws.scheduler" not in text
        self.env.sqs_client.send_message(**json.loads(text))


@pytest.fixture
def cloud(ministack_endpoint: str) -> Iterator[Cloud]:
    session = boto_session(ministack_endpoint)
    client = session.client("scheduler")
    group = f"g-{uuid.uuid4().hex[:10]}"
    client.create_schedule_group(Name=group)
    scheduler = EventBridgeScheduler(group, role_arn=ROLE, client=client)
    env = SQSEnv(session, codec="json", queue_prefix=f"{group}-", scheduler=scheduler)
    create_standard_queue(env, "jobs")
    create_fifo_queue(env, "orders.fifo")
    yield Cloud(env, scheduler, client, group)
    client.close()


def soon(**delta: float) -> datetime:
    return (datetime.now(timezone.utc) + timedelta(**delta)).replace(microsecond=0)


def test_a_long_delay_is_one_schedule_that_deletes_itself(cloud: Cloud) -> None:
    task = cloud.env.queue("jobs").connect_processor("work", lambda value: None)
    eta = soon(hours=5)
    schedule_id = task.options(eta=eta).delay("<aws.scheduler.execution-id> é")
    assert schedule_id is not None
    [(name, schedule)] = cloud.schedules().items()
    assert name == schedule_id
    assert schedule["ActionAfterCompletion"] == "DELETE"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert schedule["ScheduleExpressionTimezone"] == "UTC"
    at = datetime.strptime(schedule["ScheduleExpression"], "at(%Y-%m-%dT%H:%M:%S)")
    assert 0 <= (at.replace(tzinfo=timezone.utc) - eta).total_seconds() <= 2
    assert schedule["Target"]["RoleArn"] == ROLE
    assert cloud.env.queue("jobs").get_raw_messages() == []


def test_what_the_service_sends_is_the_message_that_the_queue_would_have_sent(cloud: Cloud) -> None:
    got: list[Any] = []
    env = cloud.env
    with env.context(user="u-1"):
        task = env.queue("jobs").connect_processor("work", lambda value: None)
        schedule_id = task.options(delay=2 * HOUR).delay("<aws.scheduler.execution-id> é")
    assert schedule_id is not None

    def work(value: str, context: Any) -> None:
        job = current_job()
        assert job is not None
        got.append((value, context["user"], job.message.string_attribute(STABLE_ID)))

    env.queue("jobs").connect_processor("work", work, pass_context=True)
    # It comes early: nobody runs it, and a schedule takes it over again.
    cloud.fire(schedule_id)
    cloud.scheduler.cancel(schedule_id)
    assert env.process_batch("jobs", wait_seconds=1).total_count() == 0
    [(again, schedule)] = cloud.schedules().items()
    assert again.startswith("job-")
    assert again != schedule_id, "the first may still be there, done but not deleted"
    text = schedule["Target"]["Input"]
    request = json.loads(text)
    request["MessageAttributes"][NOT_BEFORE]["StringValue"] = "1700000000"
    env.sqs_client.send_message(**request)
    assert env.process_batch("jobs", wait_seconds=1).succeeded_count() == 1
    assert got == [("<aws.scheduler.execution-id> é", "u-1", schedule_id.removeprefix("job-"))]


def test_a_scheduled_job_is_cancelled_by_its_id(cloud: Cloud) -> None:
    task = cloud.env.queue("jobs").connect_processor("work", lambda value: None)
    schedule_id = task.options(delay=2 * HOUR).delay(1)
    assert schedule_id is not None
    assert cloud.scheduler.cancel(schedule_id)
    assert cloud.schedules() == {}
    assert not cloud.scheduler.cancel(schedule_id)


def test_a_short_delay_goes_to_the_queue_and_no_schedule_is_made(cloud: Cloud) -> None:
    task = cloud.env.queue("jobs").connect_processor("work", lambda value: None)
    task.options(delay=900).delay(1)
    assert cloud.schedules() == {}


def test_a_fifo_queue_gets_any_delay_by_a_schedule_on_the_full_minute(cloud: Cloud) -> None:
    got: list[int] = []
    orders = cloud.env.queue("orders.fifo")
    task = orders.connect_processor("work", got.append)
    schedule_id = task.options(delay=20, group_id="g", deduplication_id="d-1").delay(1)
    assert schedule_id is not None
    [schedule] = cloud.schedules().values()
    assert schedule["ScheduleExpression"].endswith(":00)")
    request = json.loads(schedule["Target"]["Input"])
    assert (request["MessageGroupId"], request["MessageDeduplicationId"]) == ("g", "d-1")
    request["MessageAttributes"][NOT_BEFORE]["StringValue"] = "1700000000"
    cloud.env.sqs_client.send_message(**request)
    assert orders.process_batch(wait_seconds=1).succeeded_count() == 1
    assert got == [1]


def test_raw_messages_with_bytes_and_async_senders_are_scheduled(cloud: Cloud) -> None:
    raw = cloud.env.queue("jobs", RawQueue)
    raw.add_raw_job(
        "hello", 2 * HOUR, attributes={"Blob": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}}
    )
    [schedule] = cloud.schedules().values()
    assert json.loads(schedule["Target"]["Input"])["MessageAttributes"]["Blob"]["BinaryValue"] == "AP8="
    task = cloud.env.queue("orders.fifo").connect_processor("work", lambda value: None)
    assert str(asyncio.run(task.options(delay=2 * HOUR).adelay(1))).startswith("job-")
    assert len(cloud.schedules()) == 2


def test_asking_twice_makes_one_schedule(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    message = cloud.env.queue("jobs").connect_processor("work", lambda: None).prepare()[1]
    due = int(soon(hours=2).timestamp())
    first = cloud.scheduler.schedule("https://q", message, due=due, job_id="j-1")
    conflict = ClientError({"Error": {"Code": "ConflictException", "Message": "there"}}, "CreateSchedule")

    def refuse(**_: Any) -> None:
        raise conflict

    monkeypatch.setattr(cloud.client, "create_schedule", refuse)
    assert cloud.scheduler.schedule("https://q", message, due=due, job_id="j-1") == first
    conflict = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "CreateSchedule")
    with pytest.raises(SendError, match=r"could not be scheduled in group .*AccessDenied"):
        cloud.scheduler.schedule("https://q", message, due=due, job_id="j-2")


def test_a_transaction_cannot_hold_a_schedule_and_its_job_goes_on_by_hops(cloud: Cloud) -> None:
    stored: list[Any] = []
    outbox = Outbox()
    outbox.add = lambda tx, name, message: stored.append(message) or "id"  # type: ignore[method-assign,func-returns-value]
    task = cloud.env.queue("jobs").connect_processor("work", lambda value: None)
    with outbox.session(object()):
        task.options(delay=2 * HOUR).delay(1)
    assert cloud.schedules() == {}
    assert stored[0].delay_seconds == 900
    assert NOT_BEFORE in stored[0].attributes


@pytest.mark.parametrize("role", ["", "role", "arn:aws:sqs:us-east-1:1:queue"])
def test_a_role_that_is_none_is_refused(role: str) -> None:
    with pytest.raises(ConfigurationError, match="role_arn"):
        EventBridgeScheduler(role_arn=role)


def test_the_target_follows_the_partition_of_the_role() -> None:
    scheduler = EventBridgeScheduler(role_arn="arn:aws-cn:iam::000000000000:role/r")
    assert scheduler.target_arn == "arn:aws-cn:scheduler:::aws-sdk:sqs:sendMessage"


def test_the_service_understands_the_time_and_deletes_the_schedule_afterwards(cloud: Cloud) -> None:
    message = cloud.env.queue("jobs").connect_processor("work", lambda: None).prepare()[1]
    due = int(soon(seconds=1).timestamp())
    cloud.scheduler.schedule(cloud.env.queue("jobs").url, message, due=due, job_id="now")
    later = due + HOUR
    cloud.scheduler.schedule(cloud.env.queue("jobs").url, message, due=later, job_id="later")
    # It looks at its schedules every ten seconds.
    deadline, pause = time.monotonic() + 40, threading.Event()
    while cloud.names() != {"job-later"}:
        assert time.monotonic() < deadline, "the schedule was due and is still there"
        pause.wait(0.1)


# Schedules that stay


def declare(cloud: Cloud) -> Any:
    jobs, orders = cloud.env.queue("jobs"), cloud.env.queue("orders.fifo")
    task = jobs.connect_processor("report", lambda kind: None)
    jobs.periodic(cron="0 6 * * MON-FRI", timezone="Europe/Berlin", args={"kind": "<daily>"})(task)
    jobs.periodic(every=timedelta(hours=6), args={"kind": "quick"}, name="quick")(task)
    orders.periodic(every=60, name="close")(orders.connect_processor("close", lambda: None))
    return jobs


def kinds(changes: Any) -> dict[str, str]:
    return {change.name.rsplit("-", 1)[-1]: change.kind for change in changes}


def test_declared_schedules_are_made_changed_and_removed_when_asked(cloud: Cloud) -> None:
    jobs = declare(cloud)
    everything = {"jobs.report": "create", "quick": "create", "close": "create"}
    assert kinds(sync_schedules(cloud.env, dry_run=True)) == everything
    assert cloud.schedules() == {}
    assert kinds(sync_schedules(cloud.env)) == everything
    made = {name.rsplit("-", 1)[-1]: schedule for name, schedule in cloud.schedules().items()}
    assert {name: schedule["ScheduleExpression"] for name, schedule in made.items()} == {
        "jobs.report": "cron(0 6 ? * MON,TUE,WED,THU,FRI *)",
        "quick": "rate(6 hours)",
        "close": "rate(1 minute)",
    }
    assert made["jobs.report"]["ScheduleExpressionTimezone"] == "Europe/Berlin"
    assert set(kinds(sync_schedules(cloud.env)).values()) == {"keep"}

    del jobs.periodic_jobs["quick"]
    task = jobs.connect_processor("report", lambda kind: None)
    del jobs.periodic_jobs["jobs.report"]
    jobs.periodic(cron="0 7 * * *", args={"kind": "daily"})(task)
    changes = sync_schedules(cloud.env)
    assert kinds(changes) == {"jobs.report": "update", "close": "keep"}
    assert changes[0].differences == ("expression", "timezone", "input")
    assert len(cloud.schedules()) == 3
    assert kinds(sync_schedules(cloud.env, prune=True)) == {
        "jobs.report": "keep",
        "close": "keep",
        "quick": "remove",
    }
    assert len(cloud.schedules()) == 2


def test_one_time_schedules_are_none_of_its_business(cloud: Cloud) -> None:
    declare(cloud)
    task = cloud.env.queue("jobs").connect_processor("work", lambda value: None)
    schedule_id = task.options(delay=2 * HOUR).delay(1)
    sync_schedules(cloud.env, prune=True)
    assert schedule_id in cloud.schedules()


def test_a_schedule_that_somebody_switched_off_is_a_difference(cloud: Cloud) -> None:
    declare(cloud)
    sync_schedules(cloud.env)
    name = next(name for name in cloud.schedules() if name.endswith("quick"))
    found = cloud.scheduler.find(name)
    assert found is not None
    cloud.client.update_schedule(**{**cloud.scheduler._request(name, found), "State": "DISABLED"})
    changes = {change.name: change for change in sync_schedules(cloud.env)}
    assert changes[name].differences == ("enabled",)
    assert cloud.schedules()[name]["State"] == "ENABLED"


def test_what_a_schedule_sends_runs_and_carries_the_id_of_its_slot(cloud: Cloud) -> None:
    declare(cloud)
    got: list[Any] = []

    def report(kind: str) -> None:
        job = current_job()
        assert job is not None
        got.append((kind, job.message.string_attribute(STABLE_ID)))

    cloud.env.queue("jobs").connect_processor("report", report)
    sync_schedules(cloud.env)
    for name in cloud.schedules():
        cloud.fire(name, "2026-03-29T01:00:00Z")
    cloud.env.process_batch("jobs", wait_seconds=1)
    assert sorted(got) == [
        ("<daily>", "jobs.report@2026-03-29T01:00:00Z"),
        ("quick", "quick@2026-03-29T01:00:00Z"),
    ]
    [message] = cloud.env.queue("orders.fifo").get_raw_messages(wait_seconds=1)
    assert message.attributes["MessageDeduplicationId"] == "close@2026-03-29T01:00:00Z"
    assert message.string_attribute(STABLE_ID) == "close@2026-03-29T01:00:00Z"


def test_what_the_service_cannot_keep_is_refused_before_anything_is_made(cloud: Cloud) -> None:
    jobs = declare(cloud)
    task = jobs.connect_processor("work", lambda: None)
    jobs.periodic(every=30, name="often")(task)
    with pytest.raises(ConfigurationError, match="counts whole minutes"):
        sync_schedules(cloud.env)
    del jobs.periodic_jobs["often"]
    jobs.periodic(every=60, name="x" * 60)(task)
    with pytest.raises(ConfigurationError, match="more than 64 characters"):
        sync_schedules(cloud.env)
    assert cloud.schedules() == {}


def test_an_environment_without_a_scheduler_says_so(cloud: Cloud) -> None:
    with pytest.raises(ConfigurationError, match=r"SQSEnv\(scheduler="):
        sync_schedules(SQSEnv(codec="json"))
    with pytest.raises(InvalidMessageError, match="EventBridgeScheduler"):
        cloud.env.scheduler = None
        orders = cloud.env.queue("orders.fifo")
        orders.connect_processor("work", lambda: None).options(delay=60).delay()


@pytest.fixture
def target(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> str:
    module = types.ModuleType("jobs_of_a_shop")
    module.sqs = cloud.env  # type: ignore[attr-defined]
    module.other = 5  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return "jobs_of_a_shop:sqs"


def test_the_command_shows_the_difference_first_and_prunes_when_asked(
    cloud: Cloud, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = declare(cloud)
    assert main(["schedules", "sync", target, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert told.count("+ periodic.") == 3
    assert "Would be: 3 created, 0 updated, 0 removed, 0 unchanged" in told
    assert cloud.schedules() == {}
    assert main(["schedules", "sync", target]) == 0
    assert "Done: 3 created" in capsys.readouterr().out
    del jobs.periodic_jobs["quick"]
    assert main(["schedules", "sync", target]) == 0
    told = capsys.readouterr().out
    assert "quick  rate(6 hours) UTC  (kept: --prune removes it)" in told
    assert "Done: 0 created, 0 updated, 0 removed, 2 unchanged" in told
    assert len(cloud.schedules()) == 3
    assert main(["schedules", "sync", target, "--prune", "--json"]) == 0
    changes = json.loads(capsys.readouterr().out)
    assert [change["change"] for change in changes] == ["keep", "keep", "remove"]
    assert len(cloud.schedules()) == 2


def test_the_command_lists_what_is_declared(
    cloud: Cloud, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedules", "list", target]) == 0
    assert "declares no schedules" in capsys.readouterr().out
    declare(cloud)
    assert main(["schedules", "list", target, "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed["jobs.report"]["when"] == "0 6 * * MON-FRI (Europe/Berlin)"
    assert listed["quick"]["next"].endswith(":00Z")
    assert main(["schedules", "list", target]) == 0
    assert capsys.readouterr().out.splitlines()[0].split("\t") == [
        *("name", "queue", "job", "when", "next", "catch_up")
    ]


def test_the_command_refuses_what_it_cannot_use(
    cloud: Cloud, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.env.scheduler = None
    for arguments, words in [
        (["schedules", "sync", "jobs_of_a_shop:other"], "no SQSEnv"),
        (["schedules", "sync", "nowhere.jobs:sqs"], "nowhere"),
        (["schedules", "sync", "jobs_of_a_shop"], "MODULE:NAME"),
        (["schedules", "sync", ":sqs"], "MODULE:NAME"),
        (["schedules", "sync", target], "--role-arn"),
    ]:
        assert main(arguments) == 2
        assert words in capsys.readouterr().err
