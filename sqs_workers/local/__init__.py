"""An SQS endpoint on this machine: the memory backend over HTTP.

``python -m sqs_workers.local`` serves it to boto3, the aws CLI and other SDKs;
:class:`LocalServer` serves it from a thread of a test. It needs the extra ``local``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqs_workers.local.rules import KINDS, FaultPlan, FaultRule

if TYPE_CHECKING:
    from sqs_workers.local.server import LocalServer

__all__ = ["KINDS", "FaultPlan", "FaultRule", "LocalServer"]


# Loaded on demand: Python imports this package before `python -m` can say what is missing.
def __getattr__(name: str) -> type[LocalServer]:
    if name != "LocalServer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sqs_workers.local.server import LocalServer

    return LocalServer
