"""What the tests of worker processes call in them."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from sqs_workers.outcome import Outcome, Succeeded
from sqs_workers.worker import WorkerResult
from tests.worker.kit import Bench, Handler


def tell(directory: str, text: str) -> None:
    """Leave a file that says ``text``, whole or not at all."""
    path = Path(directory)
    draft = path / f".{os.getpid()}.{text}"
    draft.write_text(str(os.getpid()))
    draft.rename(path / f"{text}.{os.getpid()}")


def work(directory: str) -> WorkerResult:
    """A worker on an empty queue in memory, until it is stopped."""
    bench = Bench()
    bench.queue()
    bench.send("a")

    def say(message: object) -> None:
        tell(directory, "up")

    result = bench.worker(bench.source(Handler(say)), handle_signals=True).run()
    tell(directory, "stopped")
    return result


def clean_up_after(directory: str) -> None:
    """A program that has something to do after a signal has stopped its worker."""
    bench = Bench()
    bench.queue()
    bench.send("a")
    handler = Handler(lambda message: os.kill(os.getpid(), signal.SIGTERM))
    bench.worker(bench.source(handler), handle_signals=True).run()
    tell(directory, "up")
    # While the parent asks for a stop, too.
    threading.Event().wait(1.0)
    tell(directory, "stopped")


def fork_in_a_job(directory: str) -> WorkerResult:
    """A worker whose job ends a process of its own with SIGTERM, as ``multiprocessing`` does."""
    bench = Bench()
    bench.queue()
    bench.send("a")

    def fork(message: object) -> None:
        tell(directory, f"signal-{fork_and_terminate():d}")

    return bench.worker(bench.source(Handler(fork)), handle_signals=True).run()


def fork_and_terminate() -> int:
    """End a forked process with SIGTERM; the signal that has ended it, 0 for none."""
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            signal.alarm(5)
            os.write(tell, b"\0")
            while True:
                signal.pause()
        finally:
            os._exit(0)
    os.read(told, 1)
    os.close(told)
    os.close(tell)
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def stubborn(directory: str) -> None:
    """Ignores every request to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell(directory, "up")
    threading.Event().wait()


def start_slowly(directory: str) -> None:
    """Never gets as far as running a worker."""
    tell(directory, "up")
    threading.Event().wait()


def crash() -> int:
    """Ends badly at once."""
    return 7


def end(code: int = 0) -> int:
    """Ends by itself."""
    return code


def stuck_job(directory: str) -> WorkerResult:
    """A worker whose job does not end until it is interrupted."""
    bench = Bench()
    bench.queue(VisibilityTimeout="1000")
    bench.send("a")

    def hang(message: object) -> Outcome:
        tell(directory, "up")
        threading.Event().wait()
        return Succeeded()

    return bench.worker(bench.source(Handler(hang)), handle_signals=True, shutdown_timeout=100).run()


def wait_for_ever(directory: str) -> None:
    """A program that takes its time before it runs a worker."""
    tell(directory, "up")
    threading.Event().wait()
