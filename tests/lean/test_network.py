"""Broken connections, broken answers, refusals: what the lean transport makes of them."""

from __future__ import annotations

import contextlib
import socket
import threading
from email.utils import formatdate

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
)

from sqs_workers.clock import ManualClock
from sqs_workers.messages import OutgoingMessage
from sqs_workers.transport import ErrorKind, ReceiveOptions, classify
from sqs_workers.transport.lean import http1
from sqs_workers.transport.lean.connection import IDLE_LIMIT
from sqs_workers.transport.lean.signing import timestamp
from tests.lean.clients import QUEUE, client_of, lean
from tests.lean.scripted import ScriptedServer, Step, answer, error, hang_up, hold, raw, reset, serving

HALF = raw(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"Messages": [', close=True)
HALF_A_HEAD = raw(b"HTTP/1.1 200 OK\r\nConte", close=True)
CHUNKED = raw(
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'5;name=value\r\n{"Que\r\n1C\r\nueUrl": "https://a/queue/one\r\n2\r\n"}\r\n0\r\nTrailer: yes\r\n\r\n'
)


@pytest.mark.parametrize(
    "failure",
    [
        reset,
        hang_up,
        HALF,
        HALF_A_HEAD,
        error("InternalError", 500),
        answer(b"<html>bad gateway</html>", status=502),
        answer(b"", status=503),
        error("RequestThrottled", 400, query="RequestThrottled"),
        error("ThrottlingException", 400),
        raw(b"SSH-2.0-OpenSSH\r\n\r\n", close=True),
    ],
)
def test_f31_a_failure_that_passes_is_retried(failure: Step) -> None:
    with (
        serving(failure, failure, answer({"Messages": []})) as server,
        lean(client_of(server.url, attempts=3)) as transport,
    ):
        assert transport.receive(QUEUE, ReceiveOptions()) == []
        assert len(server.received) == 3


@pytest.mark.parametrize(
    ("failure", "expected"),
    [(reset, ConnectionClosedError), (hang_up, ConnectionClosedError), (HALF, ConnectionClosedError)],
)
def test_f31_a_failure_that_stays_is_raised_as_botocore_raises_it(
    failure: Step, expected: type[Exception]
) -> None:
    with (
        serving(failure, failure, failure) as server,
        lean(client_of(server.url, attempts=2)) as transport,
    ):
        with pytest.raises(expected) as caught:
            transport.receive(QUEUE, ReceiveOptions())
        assert classify(caught.value) is ErrorKind.NETWORK
        assert len(server.received) == 2


def test_a_server_that_never_answers_ends_in_a_read_timeout() -> None:
    with (
        serving(hold, hold) as server,
        lean(client_of(server.url, attempts=2, read_timeout=0.1)) as transport,
    ):
        with pytest.raises(ReadTimeoutError):
            transport.receive(QUEUE, ReceiveOptions())
        assert server.connections == [0, 1]


def test_a_server_that_stops_in_the_middle_of_an_answer_ends_in_a_read_timeout() -> None:
    def half_then_hold(server: ScriptedServer, sock: socket.socket) -> bool:
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")(server, sock)
        return hold(server, sock)

    with (
        serving(half_then_hold) as server,
        lean(client_of(server.url, read_timeout=0.1)) as transport,
        pytest.raises(ReadTimeoutError),
    ):
        transport.receive(QUEUE, ReceiveOptions())


def test_a_port_at_which_nobody_listens_is_an_endpoint_that_cannot_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with (
        lean(client_of(f"http://127.0.0.1:{port}", attempts=2)) as transport,
        pytest.raises(EndpointConnectionError, match=str(port)),
    ):
        transport.get_queue_url("queue")


def test_a_connection_that_does_not_come_about_in_time_is_a_connect_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_slow(address: object, timeout: float) -> socket.socket:
        assert timeout == 5
        raise TimeoutError("timed out")

    with lean(client_of("http://127.0.0.1:9")) as transport:
        monkeypatch.setattr(socket, "create_connection", too_slow)
        with pytest.raises(ConnectTimeoutError):
            transport.get_queue_url("queue")


def test_a_name_that_does_not_resolve_is_an_endpoint_that_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(*args: object, **kwargs: object) -> socket.socket:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with lean(client_of("http://queue.invalid")) as transport:
        monkeypatch.setattr(socket, "create_connection", unknown)
        with pytest.raises(EndpointConnectionError):
            transport.get_queue_url("queue")


def test_one_connection_carries_many_requests() -> None:
    with serving() as server, lean(client_of(server.url)) as transport:
        for _ in range(5):
            transport.receive(QUEUE, ReceiveOptions())
        assert server.connections == [0] * 5


def test_a_chunked_answer_is_read_and_its_connection_used_again() -> None:
    with serving(CHUNKED, CHUNKED) as server, lean(client_of(server.url)) as transport:
        assert transport.get_queue_url("one") == "https://a/queue/one"
        assert transport.get_queue_url("one") == "https://a/queue/one"
        assert server.connections == [0, 0]


def test_an_interim_answer_is_passed_over() -> None:
    interim = raw(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    with serving(interim) as server, lean(client_of(server.url)) as transport:
        assert transport.receive(QUEUE, ReceiveOptions()) == []


@pytest.mark.parametrize(
    "last",
    [
        answer({}, headers={"Connection": "close"}, close=True),
        raw(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", close=True),
        raw(b"HTTP/1.1 200 OK\r\n\r\n{}", close=True),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n"),
    ],
)
def test_a_connection_that_announces_its_end_is_not_used_again(last: Step) -> None:
    with serving(last) as server, lean(client_of(server.url)) as transport:
        transport.receive(QUEUE, ReceiveOptions())
        transport.receive(QUEUE, ReceiveOptions())
        assert server.connections == [0, 1]


def test_a_connection_that_the_server_has_closed_meanwhile_costs_no_attempt() -> None:
    clock = ManualClock()
    with (
        serving(answer({}, close=True)) as server,
        lean(client_of(server.url), clock) as transport,
    ):
        transport.receive(QUEUE, ReceiveOptions())
        server.wait_until_ended(0)
        clock.advance(1)
        with pytest.raises(Exception, match="cannot be read"):
            transport.send(QUEUE, OutgoingMessage("x"))
        assert server.connections == [0, 1]


def test_a_connection_is_left_before_a_server_would_hang_up_on_it() -> None:
    clock = ManualClock()
    with serving() as server, lean(client_of(server.url), clock) as transport:
        transport.receive(QUEUE, ReceiveOptions())
        clock.advance(IDLE_LIMIT - 1)
        transport.receive(QUEUE, ReceiveOptions())
        clock.advance(IDLE_LIMIT)
        transport.receive(QUEUE, ReceiveOptions())
        assert server.connections == [0, 0, 1]
        server.wait_until_ended(0)


@pytest.mark.parametrize("end", [hang_up, reset])
def test_a_hang_up_on_a_used_connection_repeats_what_may_be_repeated(end: Step) -> None:
    with serving(answer(), end, answer()) as server, lean(client_of(server.url)) as transport:
        transport.delete(QUEUE, "one")
        transport.delete(QUEUE, "two")
        assert [request.json["ReceiptHandle"] for request in server.received] == ["one", "two", "two"]


def test_a_message_that_may_have_been_taken_is_not_sent_again_unless_retries_allow_it() -> None:
    with serving(answer(), hang_up) as server, lean(client_of(server.url, attempts=1)) as transport:
        transport.delete(QUEUE, "one")
        with pytest.raises(ConnectionClosedError):
            transport.send(QUEUE, OutgoingMessage("x"))
        assert [request.operation for request in server.received] == ["DeleteMessage", "SendMessage"]


@pytest.mark.parametrize(
    "answer_too_large",
    [
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n{}"),
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n"),
        raw(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000),
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 70_000),
    ],
)
def test_an_answer_without_bounds_is_given_up(answer_too_large: Step) -> None:
    with serving(answer_too_large) as server, lean(client_of(server.url)) as transport:
        with pytest.raises(HTTPClientError) as caught:
            transport.receive(QUEUE, ReceiveOptions())
        assert classify(caught.value) is ErrorKind.NETWORK


def test_a_body_without_length_is_read_up_to_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "MAX_BODY_BYTES", 1000)
    endless = raw(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 2000, close=True)
    with (
        serving(endless) as server,
        lean(client_of(server.url)) as transport,
        pytest.raises(HTTPClientError, match="more than 1000"),
    ):
        transport.receive(QUEUE, ReceiveOptions())


@pytest.mark.parametrize(
    "nonsense",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n folded: yes\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 two OK\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
    ],
)
def test_an_answer_that_is_not_http_is_a_network_failure(nonsense: bytes) -> None:
    with serving(raw(nonsense)) as server, lean(client_of(server.url)) as transport:
        with pytest.raises(HTTPClientError) as caught:
            transport.receive(QUEUE, ReceiveOptions())
        assert classify(caught.value) is ErrorKind.NETWORK


@pytest.mark.parametrize("content", [b"<html>", b"\xff\xfe", b"[1]", b'{"Messages": [{"Body": "x"}]}'])
def test_an_answer_that_is_not_of_sqs_is_a_network_failure(content: bytes) -> None:
    with serving(answer(content)) as server, lean(client_of(server.url)) as transport:
        with pytest.raises(Exception, match=r"is not JSON|cannot be read") as caught:
            transport.receive(QUEUE, ReceiveOptions())
        assert classify(caught.value) is ErrorKind.NETWORK


NOW = 1_800_000_000


def skewed(code: str, seconds: float) -> Step:
    return error(code, 403, date=formatdate(NOW + seconds, usegmt=True))


@pytest.mark.parametrize("seconds", [3600, -86400])
@pytest.mark.parametrize("code", ["RequestTimeTooSkewed", "InvalidSignatureException", "RequestExpired"])
def test_f34_a_wrong_clock_is_corrected_from_the_date_of_the_refusal(code: str, seconds: int) -> None:
    with (
        serving(skewed(code, seconds)) as server,
        lean(client_of(server.url), ManualClock(NOW)) as transport,
    ):
        transport.receive(QUEUE, ReceiveOptions())
        transport.receive(QUEUE, ReceiveOptions())
        dates = [request.headers["x-amz-date"] for request in server.received]
    corrected = timestamp(NOW + seconds)
    assert dates == [timestamp(NOW), corrected, corrected]


def test_f34_a_clock_that_steps_twice_is_corrected_twice() -> None:
    with (
        serving(
            skewed("RequestTimeTooSkewed", 3600), answer(), skewed("RequestTimeTooSkewed", -3600)
        ) as server,
        lean(client_of(server.url), ManualClock(NOW)) as transport,
    ):
        transport.receive(QUEUE, ReceiveOptions())
        transport.receive(QUEUE, ReceiveOptions())
        assert server.received[-1].headers["x-amz-date"] == timestamp(NOW - 3600)


@pytest.mark.parametrize(
    "refusal",
    [
        skewed("InvalidSignatureException", 60),
        error("RequestTimeTooSkewed", 403),
        error("RequestTimeTooSkewed", 403, date="yesterday"),
        skewed("AccessDenied", 3600),
    ],
)
def test_a_refusal_that_the_clock_does_not_explain_is_raised(refusal: Step) -> None:
    with (
        serving(refusal, refusal) as server,
        lean(client_of(server.url), ManualClock(NOW)) as transport,
    ):
        with pytest.raises(ClientError):
            transport.receive(QUEUE, ReceiveOptions())
        assert len(server.received) == 1


def test_a_server_that_refuses_every_date_is_asked_twice_and_no_more() -> None:
    refusals = [skewed("RequestTimeTooSkewed", 3600 * (index + 1)) for index in range(5)]
    with (
        serving(*refusals) as server,
        lean(client_of(server.url), ManualClock(NOW)) as transport,
    ):
        with pytest.raises(ClientError):
            transport.receive(QUEUE, ReceiveOptions())
        assert len(server.received) == 2


def test_the_retry_budget_is_that_of_the_client_and_fills_again() -> None:
    failing = answer(b"", status=500)
    with serving() as server, lean(client_of(server.url, attempts=3)) as transport:

        def attempts(*steps: Step) -> int:
            server.steps = list(steps)
            before = len(server.received)
            with contextlib.suppress(ClientError):
                transport.delete(QUEUE, "x")
            return len(server.received) - before

        asked = [attempts(*[failing] * 3)]
        while asked[-1] > 1:
            asked.append(attempts(*[failing] * 3))
            assert len(asked) < 200
        assert asked[0] == 3
        assert attempts(failing) == 1, "the budget is used up: no more retries"
        for _ in range(30):
            assert attempts() == 1
        assert attempts(failing) == 2, "calls that succeeded have given tokens back"


def test_f34_threads_that_find_the_clock_wrong_at_once_correct_it_once() -> None:
    ahead = 3600

    def refuse_until_all_have_asked(server: ScriptedServer, sock: socket.socket) -> bool:
        asked.wait(10)
        return skewed("RequestTimeTooSkewed", ahead)(server, sock)

    asked = threading.Barrier(4)
    with (
        serving(*[refuse_until_all_have_asked] * 4) as server,
        lean(client_of(server.url), ManualClock(NOW)) as transport,
    ):
        threads = [threading.Thread(target=transport.delete, args=(QUEUE, "x")) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        dates = [request.headers["x-amz-date"] for request in server.received]
    assert dates == [timestamp(NOW)] * 4 + [timestamp(NOW + ahead)] * 4
