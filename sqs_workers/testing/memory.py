"""The account behind an environment on a ``MemorySession``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqs_workers.exceptions import ConfigurationError

if TYPE_CHECKING:
    from sqs_workers.memory_sqs import MemoryAWS
    from sqs_workers.sqs_env import SQSEnv

__all__ = ["memory_account"]


def memory_account(env: SQSEnv, wanted_for: str) -> MemoryAWS:
    """The account in memory.

    :raises ConfigurationError: the environment has another session: SQS shows messages only to those who
        receive them.
    """
    from sqs_workers.memory_sqs import MemoryAWS

    account: Any = getattr(env.session, "aws", None)
    if not isinstance(account, MemoryAWS):
        raise ConfigurationError(
            f"{wanted_for} needs an environment on a MemorySession, not on {env.session!r}"
        )
    return account
