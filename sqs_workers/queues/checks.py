"""Refusing what is no policy where it is declared, instead of at the first job that needs it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from sqs_workers.exceptions import ConfigurationError

__all__ = ["check_environment", "check_middleware", "check_policies", "check_policy", "is_number"]

_METHODS = {
    "backoff_policy": ("get_visibility_timeout",),
    "failure_policy": ("settle",),
    "batching_policy": ("batching_enabled", "batch_size"),
    "shutdown_policy": ("update_state", "need_shutdown"),
    "circuit": ("start",),
    "payload": ("is_large", "store", "is_pointer", "load"),
    "scheduler": ("schedule", "cancel"),
    "lease": ("last_slot", "claim", "give_back"),
    "inbox": ("run", "arun"),
}


def check_policy(name: str, policy: Any, where: str) -> None:
    """Refuse an object without the methods of this kind of policy; ``None`` is none.

    :param name: of the parameter.
    :raises ConfigurationError: says what is missing.
    """
    if policy is None:
        return
    for method in _METHODS[name]:
        if not hasattr(policy, method):
            raise ConfigurationError(f"{name} of {where} must have {method}, and {policy!r} has not")
        # A class will do if it needs no instance.
        if isinstance(policy, type) and not isinstance(
            inspect.getattr_static(policy, method), (classmethod, staticmethod)
        ):
            raise ConfigurationError(
                f"{name} of {where} must be an object, not the class: {policy.__name__}(...)"
            )


def check_policies(policies: dict[str, Any], where: str) -> None:
    """Refuse what is no policy; parameters of other kinds are let through.

    :raises ConfigurationError: says what is missing.
    """
    for name, policy in policies.items():
        if name in _METHODS:
            check_policy(name, policy, where)


def check_middleware(middleware: Any, where: str) -> tuple[Any, ...]:
    """Middleware as a tuple.

    :raises ConfigurationError: it is no list of callables.
    """
    if not isinstance(middleware, Iterable):
        raise ConfigurationError(f"middleware of {where} must be a list of functions, not {middleware!r}")
    found = tuple(middleware)
    for item in found:
        if not callable(item):
            raise ConfigurationError(f"middleware of {where} must be functions, not {item!r}")
    return found


def check_environment(env: Any) -> None:
    """Refuse parameters of an environment that are of another kind than they have to be.

    :raises ConfigurationError: names the parameter.
    """
    if not isinstance(env.queue_prefix, str):
        raise ConfigurationError(f"queue_prefix of the environment must be text, not {env.queue_prefix!r}")
    for name in ("processor_maker", "context_maker"):
        if not callable(getattr(env, name)):
            raise ConfigurationError(
                f"{name} of the environment must be a class or a function, not {getattr(env, name)!r}"
            )
    for name in ("backoff_policy", "failure_policy"):
        check_policy(name, getattr(env, name), "the environment")
    check_policy("scheduler", env.scheduler, "the environment")


def is_number(value: Any) -> bool:
    """Whether it is a number, and no truth value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
