"""Signals while messages are in hand."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqs_workers.cli.needs import click

__all__ = ["EXIT_INTERRUPTED", "stop_at_once", "stop_between_calls"]

EXIT_INTERRUPTED = 130


@contextmanager
def stop_between_calls() -> Iterator[threading.Event]:
    """Let the first SIGINT or SIGTERM set the event, and a second interrupt whatever is done then.

    A call that is interrupted may have been carried out: what it sent would be sent again.
    """
    told = threading.Event()

    def handle(number: int, frame: Any) -> None:
        if told.is_set():
            raise KeyboardInterrupt
        told.set()
        click.echo("Stopping; once more to stop at once", err=True)

    with _handlers(handle, signal.SIGINT, signal.SIGTERM):
        yield told


@contextmanager
def stop_at_once() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does: what is in hand is released."""

    def handle(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    with _handlers(handle, signal.SIGTERM):
        yield


@contextmanager
def _handlers(handle: Callable[[int, Any], None], *numbers: signal.Signals) -> Iterator[None]:
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
