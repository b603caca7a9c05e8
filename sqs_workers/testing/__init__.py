"""Tests of code that sends and runs jobs, without AWS and without waiting.

``run_until_idle(env)`` runs what was sent, ``sent_jobs(queue)`` looks at it, ``eager(env)`` runs jobs where
they are sent. The pytest plugin that comes with the package has the fixtures ``sqs_env`` and ``sqs_clock``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqs_workers.testing.at_once import eager as eager
    from sqs_workers.testing.idle import IdleResult as IdleResult
    from sqs_workers.testing.idle import NotIdleError as NotIdleError
    from sqs_workers.testing.idle import run_until_idle as run_until_idle
    from sqs_workers.testing.sent import SentJob as SentJob
    from sqs_workers.testing.sent import sent_jobs as sent_jobs

# Loaded when asked for: every run of pytest imports the plugin, and with it this package.
_MODULES = {
    "IdleResult": "idle",
    "NotIdleError": "idle",
    "SentJob": "sent",
    "eager": "at_once",
    "run_until_idle": "idle",
    "sent_jobs": "sent",
}

__all__ = sorted(_MODULES)  # noqa: PLE0605 - the names are those of _MODULES


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
