"""Faults on demand: what goes wrong, with which calls, how often.

A :class:`FaultRule` says what happens to the calls it meets; a :class:`FaultPlan`
holds the rules in force and decides for each call. The decisions of a rule follow
from the plan's seed and from the order of the calls it meets, and from nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from random import Random
from typing import Any

__all__ = ["KINDS", "FaultPlan", "FaultRule"]

KINDS: dict[str, str] = {
    "throttle": "refused with RequestThrottled (HTTP 400), not executed",
    "error500": "refused with InternalError (HTTP 500), not executed",
    "error503": "refused with ServiceUnavailable (HTTP 503), not executed",
    "denied": "refused with AccessDenied (HTTP 403), not executed",
    "expired": "refused with ExpiredToken (HTTP 403), not executed",
    "reset": "the connection is reset, not executed",
    "lost": "executed, then the connection is reset instead of an answer",
    "slow": "executed, the answer held back for `seconds`",
    "blackhole": "held for `seconds`, then the connection is reset, not executed",
    "malformed": "executed, the answer is no JSON",
    "half": "executed, the connection is closed in the middle of the answer",
    "partial": "of a batch, the entries at `entries` fail with `code`; the others are executed",
}
"""The kinds of fault, each with what happens to the call."""

_ALIASES = {"500": "error500", "503": "error503"}

DEFAULT_SECONDS = 5.0


@dataclass(frozen=True)
class FaultRule:
    """One thing that goes wrong.

    :param operation: the SQS operation it meets, as in ``"ReceiveMessage"``, or ``"*"`` for all.
    :param kind: one of :data:`KINDS`.
    :param probability: the share of the calls met that go wrong, from 0 to 1.
    :param count: how many calls go wrong before the rule is used up; ``None``: no end.
    :param after: how many calls are let through first.
    :param queue: the name of the only queue whose calls it meets; ``None``: every queue.
    :param seconds: for ``slow`` and ``blackhole``, how long the call is held.
    :param code: for ``partial`` and refusals, the error code in place of the usual one.
    :param entries: for ``partial``, the positions of the entries that fail, from 1.
    :param sender_fault: for ``partial``, what ``SenderFault`` says.
    :raises ValueError: if a value is outside of its range, or the kind does not exist.
    """

    operation: str
    kind: str
    probability: float = 1.0
    count: int | None = None
    after: int = 0
    queue: str | None = None
    seconds: float = DEFAULT_SECONDS
    code: str | None = None
    entries: tuple[int, ...] = (1,)
    sender_fault: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", _ALIASES.get(self.kind, self.kind))
        object.__setattr__(self, "entries", tuple(self.entries))
        if self.kind not in KINDS:
            raise ValueError(f"no fault is called {self.kind!r}; there are {', '.join(KINDS)}")
        if not self.operation:
            raise ValueError("a fault needs an operation, as in 'ReceiveMessage', or '*' for all")
        if not 0 <= self.probability <= 1:
            raise ValueError(f"the probability of a fault lies between 0 and 1, not at {self.probability!r}")
        if self.count is not None and self.count < 0:
            raise ValueError(f"a fault cannot happen {self.count!r} times")
        if self.after < 0 or self.seconds < 0:
            raise ValueError("`after` and `seconds` of a fault are not negative")
        if not self.entries or min(self.entries) < 1:
            raise ValueError(f"entries of a batch are counted from 1, not {self.entries!r}")

    @classmethod
    def parse(cls, text: str) -> FaultRule:
        """Read ``OPERATION:KIND[:PROBABILITY[:NAME=VALUE,...]]``, the form of the command line.

        ``"ReceiveMessage:throttle:0.05"``, ``"*:slow:1:seconds=2,count=3"``,
        ``"DeleteMessageBatch:partial:0.1:entries=1+4,code=InternalError"``.

        :raises ValueError: if ``text`` is not of that form.
        """
        parts = text.split(":", 3)
        if len(parts) < 2:
            raise ValueError(f"{text!r} is no fault: write OPERATION:KIND[:PROBABILITY[:NAME=VALUE,...]]")
        values: dict[str, Any] = {"operation": parts[0], "kind": parts[1]}
        try:
            if len(parts) > 2 and parts[2]:
                values["probability"] = float(parts[2])
            for option in filter(None, parts[3].split(",") if len(parts) > 3 else ()):
                name, _, value = option.partition("=")
                values[name] = _OPTIONS[name](value)
            return cls(**values)
        except KeyError as error:
            names = ", ".join(sorted(_OPTIONS))
            raise ValueError(f"a fault has no option {error.args[0]!r}; there are {names}") from None
        except ValueError as error:
            raise ValueError(f"{text!r} is no fault: {error}") from None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FaultRule:
        """Make a rule of a JSON object with this class's parameters as its keys.

        :raises ValueError: for an unknown key or a value of the wrong kind.
        """
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"a fault has no option {sorted(unknown)[0]!r}")
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(f"{dict(values)!r} is no fault: {error}") from None


def _entries(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("+"))


def _flag(text: str) -> bool:
    if text.lower() not in ("0", "1", "false", "true"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() in ("1", "true")


_OPTIONS: dict[str, Any] = {
    "count": int,
    "after": int,
    "queue": str,
    "seconds": float,
    "code": str,
    "entries": _entries,
    "sender_fault": _flag,
}


class _Active:
    """A rule in force, with its own random numbers: other rules do not disturb its sequence."""

    def __init__(self, rule: FaultRule, seed: str) -> None:
        self.rule = rule
        self.random = Random(seed)  # noqa: S311 - a repeatable sequence is the point
        self.met = 0
        self.happened = 0

    def hits(self) -> bool:
        rule = self.rule
        self.met += 1
        drawn = self.random.random()
        if self.met <= rule.after or (rule.count is not None and self.happened >= rule.count):
            return False
        if drawn >= rule.probability:
            return False
        self.happened += 1
        return True


class FaultPlan:
    """The faults in force; may be changed while the endpoint runs, from any thread.

    :param rules: :class:`FaultRule` objects, or texts as :meth:`FaultRule.parse` reads them.
    :param seed: what the rules' random numbers follow from.
    """

    def __init__(self, rules: Iterable[FaultRule | str] = (), *, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self._seed = seed
        self._added = 0
        self._active: list[_Active] = []
        self.set(rules)

    def add(self, rule: FaultRule | str) -> FaultRule:
        """Put one more rule into force; of several that meet a call, the first that hits decides."""
        rule = FaultRule.parse(rule) if isinstance(rule, str) else rule
        with self._lock:
            self._add(rule)
        return rule

    def set(self, rules: Iterable[FaultRule | str], *, seed: int | None = None) -> None:
        """Replace all rules by ``rules`` and begin the random sequences anew."""
        parsed = [FaultRule.parse(rule) if isinstance(rule, str) else rule for rule in rules]
        with self._lock:
            if seed is not None:
                self._seed = seed
            self._added = 0
            self._active = []
            for rule in parsed:
                self._add(rule)

    def _add(self, rule: FaultRule) -> None:
        self._active = [*self._active, _Active(rule, f"{self._seed}/{self._added}")]
        self._added += 1

    def clear(self) -> None:
        """Let every call through from now on."""
        self.set(())

    def decide(self, operation: str, queue: str | None) -> FaultRule | None:
        """What goes wrong with this call of ``operation`` on ``queue``; ``None``: nothing."""
        if not self._active:
            return None
        with self._lock:
            for active in self._active:
                rule = active.rule
                if rule.operation not in ("*", operation) or (rule.queue is not None and rule.queue != queue):
                    continue
                if active.hits():
                    return rule
        return None

    def happened(self) -> list[dict[str, Any]]:
        """Each rule in force with the calls it met and how many of them went wrong."""
        with self._lock:
            return [
                {
                    "operation": active.rule.operation,
                    "kind": active.rule.kind,
                    "met": active.met,
                    "happened": active.happened,
                }
                for active in self._active
            ]
