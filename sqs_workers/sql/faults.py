"""Places at which a test stops the program, to see what a crash there leaves behind.

A place that nobody has armed costs one comparison.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = [
    "AFTER_CALL",
    "AFTER_COMMIT",
    "AFTER_HANDLER",
    "AFTER_SEND",
    "AFTER_START",
    "BEFORE_SEND",
    "FaultPoint",
]


class FaultPoint:
    """One place; ``action`` is called there, if there is one."""

    __slots__ = ("action", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.action: Callable[[], object] | None = None

    def reach(self) -> None:
        if self.action is not None:
            self.action()

    def __repr__(self) -> str:
        return f"<FaultPoint {self.name}>"


AFTER_HANDLER = FaultPoint("inbox: the handler has returned, its transaction is not yet committed")
AFTER_COMMIT = FaultPoint("inbox: the transaction is committed, the message is not yet acknowledged")
BEFORE_SEND = FaultPoint("relay: rows are claimed and not yet sent")
AFTER_SEND = FaultPoint("relay: messages are sent and not yet marked")
AFTER_START = FaultPoint("idempotent call: the key is stored, the other side not yet called")
AFTER_CALL = FaultPoint("idempotent call: the other side has answered, the answer is not yet stored")
