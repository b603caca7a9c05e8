"""Apps as a whole, over the local endpoint and SQLite."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing

import pytest

from sqs_workers.exceptions import WorkerError
from sqs_workers.hooks import JobFailed, JobRetried, JobSucceeded, VisibilityExtended
from tests.app.world import World

TO_ROW = """
def handle(ctx, item):
    return {"event_id": item["id"], "payload": item, "status": item.get("status", "received")}
"""
REFUSE = """
from sqs_workers.exceptions import PermanentError
def handle(item):
    raise PermanentError("not this one")
"""


def test_rows_of_messages_at_once_share_commits_and_a_bad_row_fails_alone(world: World) -> None:
    world.queue(dead_after=1)
    world.write(
        handler="""
        async def handle(ctx, item):
            return {"event_id": item["id"], "payload": item, "status": item["status"]}
        """,
        queue="wait_time_s: 1, on_fail: release",
        task="emit: sink\nconcurrency: 16\n",
    )
    world.send(*({"id": f"e{n:03}", "status": "good", "text": "naïve 你好"} for n in range(100)))
    world.send({"id": "e050", "status": "again"}, {"id": "bad", "status": None})
    ran = world.run(until_idle=1.0)
    assert ran.code == 0
    assert len(world.rows()) == 100
    assert dict(world.rows())["e050"] in ("good", "again")
    assert json.loads(world.rows("payload")[0][0]) == {"id": "e000", "status": "good", "text": "naïve 你好"}
    assert [type(event.error).__name__ for event in ran.of(JobFailed)] == ["RowRefused"]
    assert world.counts("events-dead") == (1, 0)
    assert sum(write.rows for write in ran.writes) == 102
    assert len(ran.writes) < 60


def test_a_sync_handler_with_several_sinks_and_rows_writes_all_of_them(world: World) -> None:
    world.queue()
    world.queue("next")
    world.write(
        handler="""
        def handle(ctx, item):
            status = ctx.attributes.get("kind", "-")
            return [{"event_id": f"{item['id']}-{n}", "status": status} for n in range(3)]
        """,
        resources="next: {type: sqs_sink, connector: sqs, name: next}\n",
        task="emit: [sink, next]\nconcurrency: 4\n",
    )
    world.send({"id": "a"}, {"id": "b"})
    assert world.run(max_jobs=2).code == 0
    assert len(world.rows()) == 6
    assert world.counts("next") == (6, 0)


def test_none_is_acknowledged_without_a_row(world: World) -> None:
    world.queue()
    world.write(handler="def handle(item): return None", task="emit: sink\n")
    world.send({"id": "a"})
    ran = world.run(max_jobs=1)
    assert (ran.code, world.rows(), world.counts()) == (0, [], (0, 0))


def test_rows_of_a_message_are_written_whole_or_not_at_all(world: World) -> None:
    world.queue()
    world.write(
        handler="""
        def handle(item):
            rows = {"-1": "x", "-2": item["s"]}
            return [{"event_id": item["id"] + key, "status": status} for key, status in rows.items()]
        """,
        queue="wait_time_s: 1, on_fail: delete",
        task="emit: sink\nconcurrency: 4\n",
    )
    world.send({"id": "good", "s": "x"}, {"id": "bad", "s": None})
    world.run(max_jobs=2)
    assert [key for key, _ in world.rows()] == ["good-1", "good-2"]


def test_on_fail_leave_keeps_the_message_hidden(world: World) -> None:
    world.queue()
    world.write(handler=REFUSE, task="emit: sink\n")
    world.send({"id": "a"})
    world.run(max_jobs=1)
    assert world.counts() == (0, 1)


def test_on_fail_release_shows_the_message_at_once_until_the_redrive_policy_moves_it(world: World) -> None:
    world.queue(dead_after=3)
    world.write(handler=REFUSE, queue="wait_time_s: 1, on_fail: release", task="emit: sink\n")
    world.send({"id": "a"})
    ran = world.run(until_idle=1.0)
    assert [event.receive_count for event in ran.of(JobFailed)] == [1, 2, 3]
    assert (world.counts(), world.counts("events-dead")) == ((0, 0), (1, 0))


def test_on_fail_delete_deletes(world: World) -> None:
    world.queue()
    world.write(handler=REFUSE, queue="wait_time_s: 1, on_fail: delete", task="emit: sink\n")
    world.send({"id": "a"})
    world.run(max_jobs=1)
    assert world.counts() == (0, 0)


def test_on_fail_dead_letter_copies_with_the_reason(world: World) -> None:
    world.queue()
    world.queue("refused")
    world.write(
        handler="def handle(item): raise KeyError('id')",
        resources="refused: {type: sqs_queue, connector: sqs, name: refused}\n",
        queue="wait_time_s: 1, on_fail: dead_letter, dead_letter_queue: refused",
        task="emit: sink\npermanent_errors: [KeyError]\n",
    )
    world.send({"id": "a"})
    world.run(max_jobs=1)
    (message,) = world.take("refused")
    assert json.loads(message["Body"]) == {"id": "a"}
    assert message["MessageAttributes"]["DeadLetterErrorType"]["StringValue"] == "KeyError"
    assert world.counts() == (0, 0)


def test_attempts_are_counted_by_the_receive_count_of_sqs(world: World) -> None:
    world.queue(visibility=0)
    world.write(
        handler="def handle(item): raise OSError",
        queue="wait_time_s: 1, visibility_timeout: 30, on_fail: delete",
        task="emit: sink\nretry: {type: constant, min_delay_s: 0, max_attempts: 3}\n",
    )
    world.send({"id": "a"})
    # Two other workers had it, and died.
    assert len(world.take("events") + world.take("events")) == 2
    ran = world.run(max_jobs=1)
    assert [event.receive_count for event in ran.of(JobFailed)] == [3]
    assert world.counts() == (0, 0)


def test_retries_come_after_the_delays_of_the_file(world: World) -> None:
    world.queue()
    world.write(
        handler="""
        import time
        seen = []
        def handle(item):
            seen.append(time.monotonic())
            raise OSError
        """,
        queue="wait_time_s: 1, on_fail: delete",
        task="emit: sink\nretry: {max_attempts: 3, min_delay_s: 1, max_delay_s: 30, jitter: none}\n",
    )
    world.send({"id": "a"})
    ran = world.run(max_jobs=3)
    assert [event.delay for event in ran.of(JobRetried)] == [1, 2]
    import sys

    first, second, third = sys.modules["test_handler"].seen
    assert 0.9 <= second - first < 2.5
    assert 1.9 <= third - second < 3.5


def test_the_heartbeat_holds_a_message_for_three_times_its_visibility(world: World) -> None:
    world.queue(visibility=1)
    world.write(
        handler="""
        import asyncio
        async def handle(item):
            await asyncio.sleep(3)
        """,
        queue="wait_time_s: 1, heartbeat_interval_s: 0.3, heartbeat_visibility_timeout: 1",
        task="emit: sink\nconcurrency: 2\n",
    )
    world.send({"id": "a"})
    ran = world.run(until_idle=1.0)
    assert len(ran.of(JobSucceeded)) == 1
    assert len(ran.of(VisibilityExtended)) >= 6
    assert world.counts() == (0, 0)


def test_an_interval_above_the_queues_own_visibility_timeout_is_made_shorter(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.queue(visibility=3)
    world.write(
        handler=TO_ROW,
        queue="wait_time_s: 1, heartbeat_interval_s: 15, heartbeat_visibility_timeout: 60",
        task="emit: sink\n",
    )
    world.send({"id": "a"})
    assert world.run(max_jobs=1).code == 0
    assert "heartbeat_interval_s is 15: it is 1.0 instead" in caplog.text


def test_an_async_handler_that_is_stuck_is_cancelled(world: World) -> None:
    world.queue()
    world.write(
        handler="""
        import asyncio
        ended = []
        async def handle(item):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(item)
        """,
        queue="wait_time_s: 1, on_fail: delete",
        task="emit: sink\ntimeout_s: 0.3\nretry: {type: none}\n",
    )
    world.send({"id": "a"})
    ran = world.run(max_jobs=1)
    assert [type(event.error).__name__ for event in ran.of(JobFailed)] == ["JobTimeoutError"]
    assert world.counts() == (0, 0)


def test_a_sync_handler_that_is_stuck_is_given_up_and_its_late_row_is_not_acknowledged(world: World) -> None:
    world.queue()
    world.write(
        handler="""
        import threading
        go_on = threading.Event()
        def handle(item):
            if item["id"] == "stuck":
                go_on.wait(20)
            return {"event_id": item["id"], "status": "x"}
        """,
        task="emit: sink\ntimeout_s: 0.3\nconcurrency: 2\n",
    )
    world.send({"id": "stuck"}, {"id": "good"})
    ran = world.run(max_jobs=2)
    import sys

    sys.modules["test_handler"].go_on.set()
    assert [type(event.error).__name__ for event in ran.of(JobFailed)] == ["JobTimeoutError"]
    assert ("good", "x") in world.rows()
    assert world.counts() == (0, 1)


def test_a_body_that_is_no_json_fails_for_good_without_the_handler(world: World) -> None:
    world.queue()
    world.write(handler=TO_ROW, queue="wait_time_s: 1, on_fail: delete", task="emit: sink\n")
    world.send("no json", '{"id": "a"}')
    ran = world.run(max_jobs=2)
    (failed,) = ran.of(JobFailed)
    assert failed.permanent
    assert "no json" not in str(failed.error)
    assert len(world.rows()) == 1


def test_a_notification_of_sns_is_unwrapped(world: World) -> None:
    world.queue()
    world.write(handler=TO_ROW, task="emit: sink\n")
    world.send(
        {
            "Type": "Notification",
            "MessageId": "m",
            "TopicArn": "arn:aws:sns:us-east-1:1:t",
            "Timestamp": "2026-01-01T00:00:00Z",
            "Message": json.dumps({"id": "inner"}),
        }
    )
    world.run(max_jobs=1)
    assert world.rows() == [("inner", "received")]


def test_a_handler_of_batches_gets_lists_and_each_item_ends_for_itself(world: World) -> None:
    world.queue()
    world.write(
        handler="""
        sizes = []
        def handle(ctx, items):
            sizes.append((len(items), len(ctx.message_ids)))
            return [{"event_id": item["id"], "status": item["status"]} for item in items]
        """,
        queue="wait_time_s: 1, on_fail: delete",
        task="emit: sink\nbatch: {size: 5, linger_s: 0.3}\n",
    )
    world.send(*({"id": f"e{n}", "status": "x" if n else None} for n in range(12)))
    ran = world.run(until_idle=1.0)
    import sys

    sizes = sys.modules["test_handler"].sizes
    assert all(items == ids <= 5 for items, ids in sizes)
    assert sum(items for items, _ in sizes) == 12
    assert len(sizes) < 12
    assert len(world.rows()) == 11
    assert len(ran.of(JobFailed)) == 1


def test_an_inbox_lets_an_event_have_its_effect_once(world: World) -> None:
    world.queue()
    world.write(
        handler="""
        import sqlalchemy
        def handle(ctx, item):
            ctx.tx.execute(sqlalchemy.text("UPDATE events SET n = n + 1 WHERE event_id = 'account'"))
            return {"event_id": item["id"], "status": "seen"}
        """,
        resources="""
        inbox: {type: inbox, connector: db, consumer: billing, event_id: id, create: true}
        """,
        queue="wait_time_s: 1, on_fail: delete",
        task="emit: sink\nconcurrency: 4\ninbox: inbox\n",
    )
    with closing(sqlite3.connect(world.directory / "test.db")) as connection, connection:
        connection.execute("INSERT INTO events VALUES ('account', NULL, 'x', 0)")
    world.send(
        {"id": "a"}, {"id": "a"}, {"id": "b"}, {"id": "a"}, {"id": "b", "other": "payload"}, {"no": "id"}
    )
    ran = world.run(max_jobs=6)
    assert dict(world.rows("event_id, n"))["account"] == 2
    assert sorted(type(event.error).__name__ for event in ran.of(JobFailed)) == [
        "PayloadConflict",
        "PermanentError",
    ]


def test_max_jobs_takes_exactly_so_many_messages(world: World) -> None:
    world.queue()
    world.write(handler=TO_ROW, task="emit: sink\nconcurrency: 8\n")
    world.send(*({"id": f"e{n}"} for n in range(30)))
    assert world.run(max_jobs=7).code == 0
    assert len(world.rows()) == 7
    assert world.counts() == (23, 0)


def test_once_is_one_receive(world: World) -> None:
    world.queue()
    world.write(handler=TO_ROW, queue="wait_time_s: 1, batch_size: 3", task="emit: sink\nconcurrency: 8\n")
    world.send(*({"id": f"e{n}"} for n in range(9)))
    assert world.run(once=True).code == 0
    assert len(world.rows()) == 3
    assert world.run(once=True).code == 0
    assert world.counts() == (3, 0)


def test_once_on_an_empty_queue_ends(world: World) -> None:
    world.queue()
    world.write(handler=TO_ROW, task="emit: sink\n")
    assert world.run(once=True).code == 0


def test_a_queue_that_is_not_there_ends_the_run_with_exit_code_1(world: World) -> None:
    world.write(handler=TO_ROW, task="emit: sink\n")
    assert world.run().code == 1


def test_a_table_that_cannot_take_the_rows_is_refused_before_anything_is_received(world: World) -> None:
    world.queue()
    world.write(handler=TO_ROW, task="emit: sink\n")
    path = world.directory / "worker.yaml"
    path.write_text(path.read_text().replace("table: events", "table: absent"), encoding="utf-8")
    world.send({"id": "a"})
    with pytest.raises(WorkerError, match="no table 'absent'"):
        world.run()
    assert world.counts() == (1, 0)


def test_two_tasks_run_side_by_side_and_stop_together(world: World) -> None:
    world.queue()
    world.queue("more")
    world.write(
        handler=TO_ROW + "\ndef other(item): return {'event_id': 'other', 'status': 'x'}\n",
        resources="more: {type: sqs_queue, connector: sqs, name: more, wait_time_s: 1}\n",
        task="emit: sink\n",
    )
    with (world.directory / "worker.yaml").open("a", encoding="utf-8") as file:
        file.write("  - {name: second, source: more, handler: 'test_handler:other', emit: sink}\n")
    world.send({"id": "a"})
    world.send({"id": "b"}, queue="more")
    assert world.run(until_idle=1.0).code == 0
    assert [key for key, _ in world.rows()] == ["a", "other"]


def test_no_thread_of_a_run_stays(world: World) -> None:
    world.queue()
    world.write(handler=TO_ROW, task="emit: sink\n")
    world.run(once=True)
    left = [
        thread.name for thread in threading.enumerate() if thread.name.startswith(("sqs-task", "sqs-sink"))
    ]
    assert left == []
