"""The pieces of a running app, each by itself."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqs_workers.app.connections import database_url, open_sqs
from sqs_workers.app.envelopes import item_of
from sqs_workers.app.logs import JsonFormatter, TextFormatter, configure
from sqs_workers.app.outlets import Entry, GroupCommit, OneByOne, WriteReport
from sqs_workers.app.receiving import Quota
from sqs_workers.app.remote_sinks import RowsToHttp, RowsToQueue
from sqs_workers.app.retrying import TaskBackoff
from sqs_workers.app.spec import Logging, Retry
from sqs_workers.app.spec_resources import HttpSink, Mysql, Postgres, Sqlite, Sqs, SqsSink
from sqs_workers.exceptions import ConfigurationError, PermanentError, UndecodableMessageError
from sqs_workers.messages import Message, OutgoingMessage
from sqs_workers.transport import EntryError, SendResult

NOTIFICATION = {
    "Type": "Notification",
    "MessageId": "m",
    "TopicArn": "arn:aws:sns:us-east-1:1:topic",
    "Message": '{"id": 1}',
    "Timestamp": "2026-01-01T00:00:00Z",
}
EVENT = {"id": "x", "detail-type": "Order", "source": "shop", "time": "now", "detail": {"id": 1}}


class Recorder:
    """A sink that notes what it is given."""

    name = "recorder"

    def __init__(self, errors: Sequence[BaseException | None] | BaseException = ()) -> None:
        self.writes: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self._errors = errors

    def write(self, entries: Sequence[Entry]) -> Sequence[BaseException | None]:
        self.writes.append([entry.event_id for entry in entries])
        assert self.gate.wait(10)
        if isinstance(self._errors, BaseException):
            raise self._errors
        return self._errors or [None] * len(entries)


def entry(name: str, rows: int = 1) -> Entry:
    return Entry(name, tuple({"n": n} for n in range(rows)))


# -- outlets


def test_nobody_waits_for_company_that_cannot_come() -> None:
    sink = Recorder()
    outlet = GroupCommit(sink, linger=60)
    for _ in range(3):
        outlet.enter()
    futures = [outlet.submit(entry(name)) for name in "abc"]
    for future in futures:
        future.result(10)
    assert sink.writes == [["a", "b", "c"]]
    outlet.close()


def test_a_message_that_ends_without_rows_holds_up_nobody() -> None:
    sink = Recorder()
    outlet = GroupCommit(sink, linger=60)
    outlet.enter()
    outlet.enter()
    future = outlet.submit(entry("a"))
    outlet.leave()
    future.result(10)
    outlet.close()


def test_while_a_write_runs_the_next_collects_and_no_write_is_larger_than_asked() -> None:
    sink = Recorder()
    sink.gate.clear()
    reports: list[WriteReport] = []
    outlet = GroupCommit(sink, max_rows=4, linger=0, report=reports.append)
    first = outlet.submit(entry("first"))
    while not sink.writes:
        threading.Event().wait(0.01)
    rest = [outlet.submit(entry(str(n), rows=2)) for n in range(3)]
    sink.gate.set()
    for future in [first, *rest]:
        future.result(10)
    assert sink.writes == [["first"], ["0", "1"], ["2"]]
    assert [report.rows for report in reports] == [1, 4, 2]
    outlet.close()


def test_each_message_gets_its_own_answer() -> None:
    sink = Recorder([None, PermanentError("no"), None])
    outlet = GroupCommit(sink, linger=60)
    for _ in range(3):
        outlet.enter()
    futures = [outlet.submit(entry(name)) for name in "abc"]
    assert [type(future.exception(10)) for future in futures] == [type(None), PermanentError, type(None)]
    outlet.close()


def test_a_write_that_raises_fails_all_of_its_messages_and_the_next_goes_on() -> None:
    sink = Recorder(OSError("down"))
    outlet = GroupCommit(sink, linger=0)
    assert isinstance(outlet.submit(entry("a")).exception(10), OSError)
    assert isinstance(outlet.submit(entry("b")).exception(10), OSError)
    outlet.close()


def test_what_was_given_up_is_not_written() -> None:
    sink = Recorder()
    sink.gate.clear()
    outlet = GroupCommit(sink, linger=0)
    first = outlet.submit(entry("first"))
    while not sink.writes:
        threading.Event().wait(0.01)
    given_up = outlet.submit(entry("given up"))
    assert given_up.cancel()
    sink.gate.set()
    first.result(10)
    outlet.submit(entry("last")).result(10)
    assert sink.writes == [["first"], ["last"]]
    outlet.close()


def test_closing_writes_what_waits_and_takes_nothing_more() -> None:
    sink = Recorder()
    outlet = GroupCommit(sink, linger=60)
    outlet.enter()
    outlet.enter()
    future = outlet.submit(entry("a"))
    outlet.close()
    future.result(0)
    assert isinstance(outlet.submit(entry("b")).exception(1), RuntimeError)


# -- bodies


@pytest.mark.parametrize(
    ("body", "unwrap", "item"),
    [
        ('{"id": 1}', "auto", {"id": 1}),
        ("[1, 2]", "auto", [1, 2]),
        (json.dumps(NOTIFICATION), "auto", {"id": 1}),
        (json.dumps(NOTIFICATION), "sns", {"id": 1}),
        (json.dumps(NOTIFICATION), "none", NOTIFICATION),
        (json.dumps(EVENT), "auto", EVENT),
        (json.dumps(EVENT), "eventbridge", {"id": 1}),
    ],
)
def test_items_come_out_of_their_envelopes(body: str, unwrap: str, item: Any) -> None:
    assert item_of(body, unwrap=unwrap) == item


@pytest.mark.parametrize(
    ("body", "unwrap"),
    [
        ("{", "auto"),
        ("NaN", "auto"),
        ("[" * 100_000, "auto"),
        ('{"id": 1}', "sns"),
        ('{"id": 1}', "eventbridge"),
        ("", "auto"),
    ],
)
def test_what_cannot_be_read_is_permanent_and_not_quoted(body: str, unwrap: str) -> None:
    with pytest.raises(UndecodableMessageError) as caught:
        item_of(body, unwrap=unwrap)
    assert len(str(caught.value)) < 100


def test_a_text_is_taken_as_it_stands() -> None:
    assert item_of("{", codec="text") == "{"
    assert item_of(json.dumps(NOTIFICATION), codec="text") == '{"id": 1}'


# -- retries


def failed(receives: int) -> Message:
    return Message("m", "r", "", {"ApproximateReceiveCount": str(receives)})


def test_delays_double_up_to_the_maximum() -> None:
    policy = TaskBackoff.of(Retry(min_delay_s=1, max_delay_s=30, jitter="none"))
    assert [policy.get_visibility_timeout(failed(n)) for n in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]


def test_constant_delays_are_constant() -> None:
    policy = TaskBackoff.of(Retry(type="constant", min_delay_s=7))
    assert {policy.get_visibility_timeout(failed(n)) for n in range(1, 50)} == {7}


@given(
    st.floats(0, 43_200),
    st.floats(0, 43_200),
    st.sampled_from(["none", "full", "equal"]),
    st.integers(1, 100_000),
)
def test_a_delay_is_never_above_the_maximum(low: float, high: float, jitter: Any, receives: int) -> None:
    low, high = min(low, high), max(low, high)
    policy = TaskBackoff.of(Retry(min_delay_s=low, max_delay_s=high, jitter=jitter))
    assert min(low, high) - 1e-9 <= policy.get_visibility_timeout(failed(receives)) <= high + 1e-9


# -- what is received


def test_a_quota_gives_back_what_a_receive_did_not_bring() -> None:
    quota = Quota(5)
    assert quota.ask(10) == 5
    assert quota.ask(10) == 0
    quota.brought(5, 2)
    assert quota.ask(10) == 3


# -- databases


def test_a_dsn_gets_its_driver_and_encoding(tmp_path: Any) -> None:
    mysql = database_url("db", Mysql(dsn="mysql://u:p@h:3306/d"), tmp_path)
    assert (mysql.drivername, mysql.query["charset"]) == ("mysql+pymysql", "utf8mb4")
    assert database_url("db", Postgres(dsn="postgres://u@h/d"), tmp_path).drivername == "postgresql+psycopg"
    assert database_url("db", Sqlite(dsn="sqlite:///x.db"), tmp_path).database == str(tmp_path / "x.db")


@pytest.mark.parametrize("dsn", ["hunter2", "postgresql://u:hunter2@h/d", ""])
def test_a_dsn_of_another_kind_is_refused_without_being_shown(dsn: str, tmp_path: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        database_url("db", Mysql(dsn=dsn), tmp_path)
    assert "hunter2" not in str(caught.value)


# -- logs


@pytest.fixture
def unchanged_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def test_a_record_is_one_json_object_with_stable_keys_and_without_the_text_of_errors(
    unchanged_logging: None,
) -> None:
    stream = io.StringIO()
    configure(Logging(), stream=stream)
    try:
        raise ValueError("hunter2")
    except ValueError:
        logging.getLogger("users.handler").exception(
            "It\nfailed", extra={"message_id": "m-1", "body": "hunter2"}
        )
    (line,) = stream.getvalue().splitlines()
    told = json.loads(line)
    assert (told["message"], told["message_id"], told["error_type"]) == ("It\nfailed", "m-1", "ValueError")
    assert "test_pieces.py" in told["error_place"]
    assert "hunter2" not in line


def test_error_messages_are_logged_if_the_file_asks_for_them(unchanged_logging: None) -> None:
    stream = io.StringIO()
    configure(Logging(format="text", error_messages=True), stream=stream, color=False)
    try:
        raise ValueError("the reason")
    except ValueError:
        logging.getLogger("x").exception("Failed")
    assert 'error="the reason"' in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_libraries_that_log_bodies_are_kept_quiet_at_debug(unchanged_logging: None) -> None:
    stream = io.StringIO()
    configure(Logging(level="DEBUG"), stream=stream)
    for name in ("botocore.endpoint", "urllib3.connectionpool", "sqlalchemy.engine"):
        logging.getLogger(name).debug("hunter2")
        logging.getLogger(name).info("hunter2")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    "formatter", [JsonFormatter(error_messages=False), TextFormatter(error_messages=False)]
)
def test_a_record_with_a_wrong_format_string_is_not_lost(formatter: logging.Formatter) -> None:
    record = logging.LogRecord("x", logging.INFO, "x.py", 1, "%d items", ("many",), None)
    assert "%d items" in formatter.format(record)


# -- http


class _Service(BaseHTTPRequestHandler):
    answers: list[int] = []  # noqa: RUF012 - replaced for each test
    seen: list[tuple[str, dict[str, Any]]] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((self.headers["Idempotency-Key"], body))
        self.send_response(self.answers.pop(0))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class calls it
        """Quiet."""


@pytest.fixture
def service() -> Iterator[str]:
    _Service.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hook?token=hunter2"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "permanent"),
    [
        (200, None),
        (204, None),
        (400, True),
        (404, True),
        (301, True),
        (408, False),
        (429, False),
        (500, False),
        (503, False),
    ],
)
def test_what_a_service_answers_decides_whether_to_try_again(
    service: str, status: int, permanent: bool | None
) -> None:
    _Service.answers = [status]
    sink = RowsToHttp("hook", HttpSink(url=service), connections=1)
    (error,) = sink.write([entry("m-1")])
    assert (None if error is None else isinstance(error, PermanentError)) is permanent
    assert "hunter2" not in str(error)
    assert _Service.seen == [("m-1-0", {"n": 0})]


def test_rows_go_one_by_one_with_a_key_that_is_the_same_at_each_attempt(service: str) -> None:
    _Service.answers = [200, 200, 200, 200]
    outlet = OneByOne(
        RowsToHttp("hook", HttpSink(url=service, idempotency_key=None), connections=2), threads=2
    )
    for _ in range(2):
        outlet.submit(entry("m-1", rows=2)).result(10)
    outlet.close()
    assert [key for key, _ in _Service.seen] == ["m-1-0", "m-1-1"] * 2


def test_a_service_that_is_not_there_is_temporary() -> None:
    sink = RowsToHttp("hook", HttpSink(url="http://127.0.0.1:1/"), connections=1)
    (error,) = sink.write([entry("m-1")])
    assert error is not None
    assert not isinstance(error, PermanentError)


def test_a_row_that_is_no_json_is_permanent() -> None:
    sink = RowsToHttp("hook", HttpSink(url="http://127.0.0.1:1/"), connections=1)
    (error,) = sink.write([Entry("m", (cast("Any", {"x": object()}),))])
    assert isinstance(error, PermanentError)


# -- another queue


class _Taker:
    """A transport that refuses what it is told to."""

    def __init__(self, refused: dict[str, bool]) -> None:
        self.refused = refused
        self.requests: list[list[OutgoingMessage]] = []

    def send_batch(self, queue_url: str, messages: Sequence[OutgoingMessage]) -> list[SendResult]:
        self.requests.append(list(messages))
        return [
            SendResult(None, EntryError("Code", "", self.refused[message.body]))
            if message.body in self.refused
            else SendResult("id")
            for message in messages
        ]


def to_queue(taker: _Taker, **options: Any) -> RowsToQueue:
    spec = SqsSink(connector="sqs", **{"name": "next", **options})
    return RowsToQueue("next", spec, cast("Any", taker), lambda: "http://queue")


def test_rows_for_a_queue_go_in_tens_and_each_message_gets_its_own_answer() -> None:
    taker = _Taker({'{"n": "wrong"}': True, '{"n": "later"}': False})
    entries = [Entry(str(n), ({"n": n},)) for n in range(12)]
    entries += [Entry("x", ({"n": "wrong"},)), Entry("y", ({"n": "later"}, {"n": 1}))]
    errors = to_queue(taker).write(entries)
    assert [len(request) for request in taker.requests] == [10, 5]
    assert errors[:12] == [None] * 12
    assert isinstance(errors[12], PermanentError)
    assert errors[13] is not None
    assert not isinstance(errors[13], PermanentError)


def test_rows_for_a_fifo_queue_have_a_group_and_a_deduplication_id_that_stays() -> None:
    taker = _Taker({})
    sink = to_queue(taker, name="next.fifo", group_id="account")
    errors = sink.write([Entry("m-1", ({"account": 7}, {"account": 8})), Entry("m-2", ({"other": 1},))])
    assert [(one.group_id, one.deduplication_id) for one in taker.requests[0]] == [
        ("7", "m-1-0"),
        ("8", "m-1-1"),
    ]
    assert isinstance(errors[1], PermanentError)


def test_a_row_that_is_too_large_for_a_queue_is_permanent() -> None:
    (error,) = to_queue(_Taker({})).write([Entry("m", ({"x": "y" * 1_100_000},))])
    assert isinstance(error, PermanentError)


def test_a_role_is_assumed_when_it_is_first_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    spec = Sqs(region_name="us-east-1", role_arn="arn:aws:iam::123456789012:role/worker", external_id="x")
    client = open_sqs("sqs", spec)
    assert client._request_signer._credentials.method == "assume-role"
    client.close()


def test_a_region_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(ConfigurationError, match="region"):
        open_sqs("sqs", Sqs())
