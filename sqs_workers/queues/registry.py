"""The queues that an environment has made, and those that it finds on SQS."""

from __future__ import annotations

import json
import logging
import threading
from functools import partial
from typing import Any

from sqs_workers.batching import NoBatching
from sqs_workers.codecs import accepted_names
from sqs_workers.envelopes.policies import envelope_policy
from sqs_workers.exceptions import ConfigurationError, InvalidQueueNameError, QueueConflictError
from sqs_workers.outgoing import check_queue_name
from sqs_workers.queues.checks import check_middleware, check_policies, check_policy
from sqs_workers.queues.generic import GenericQueue
from sqs_workers.queues.job_queue import JobQueue
from sqs_workers.queues.settings import QueueSettings, check_common, exception_classes, same
from sqs_workers.transport.errors import ErrorKind, classify

__all__ = ["QueueRegistry"]

logger = logging.getLogger("sqs_workers.sqs_env")

_SETTINGS = (
    "failure_policy",
    "max_attempts",
    "timeout",
    "permanent_errors",
    "middleware",
    "accept",
    "envelope",
    "payload",
)


class QueueRegistry:
    """Makes each queue once.

    :param env: the environment; its dictionary ``queues`` holds them.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self._lock = threading.RLock()
        self._makers: dict[str, Any] = {}

    def get(
        self,
        name: str,
        maker: Any,
        batching_policy: Any,
        backoff_policy: Any,
        queue_url: str | None,
        settings: dict[str, Any],
    ) -> Any:
        """The queue of this name; ``None`` for what was not said.

        :raises QueueConflictError: it was made with other settings.
        """
        queue = self._env.queues.get(name)
        if queue is None:
            with self._lock:
                queue = self._env.queues.get(name)
                if queue is None:
                    return self._make(name, maker, batching_policy, backoff_policy, queue_url, settings)
        if (
            maker is None
            and batching_policy is None
            and backoff_policy is None
            and not queue_url
            and not settings
        ):
            return queue
        conflicts = self._conflicts(queue, maker, batching_policy, backoff_policy, queue_url, settings)
        if conflicts:
            raise QueueConflictError(
                f"queue {name!r} was declared before with another {', another '.join(conflicts)}; declare "
                "it once, and ask for it by its name alone"
            )
        return queue

    def _make(
        self,
        name: str,
        maker: Any,
        batching_policy: Any,
        backoff_policy: Any,
        queue_url: str | None,
        settings: dict[str, Any],
    ) -> Any:
        if queue_url is None:
            check_queue_name(self._env.get_sqs_queue_name(name))
        elif not isinstance(queue_url, str):
            raise ConfigurationError(f"queue_url of queue {name!r} must be text, not {queue_url!r}")
        if not isinstance(name, str):
            raise InvalidQueueNameError(f"the name of a queue must be text, not {name!r}")
        if maker is not None and not callable(maker):
            raise ConfigurationError(
                f"queue_maker of queue {name!r} must be a class or a function, not {maker!r}"
            )
        where = f"queue {name!r}"
        check_policies({"batching_policy": batching_policy, "backoff_policy": backoff_policy}, where)
        check_policies(settings, where)
        checked = self._settings(name, settings)
        queue = (JobQueue if maker is None else maker)(
            env=self._env,
            name=name,
            batching_policy=NoBatching() if batching_policy is None else batching_policy,
            backoff_policy=backoff_policy or self._env.backoff_policy,
        )
        if checked.envelope is not None and not isinstance(queue, JobQueue):
            raise ConfigurationError(
                f"queue {name!r} hands its messages out as they are: take envelope= out, and open() them with "
                "the envelope in the processor"
            )
        if queue_url is not None:
            queue.queue_url = queue_url
        queue.settings = checked
        self._makers[name] = maker
        self._env.queues[name] = queue
        return queue

    @staticmethod
    def _settings(name: str, settings: dict[str, Any]) -> QueueSettings:
        unknown = settings.keys() - set(_SETTINGS)
        if unknown:
            raise ConfigurationError(
                f"queue {name!r} has no setting {', '.join(sorted(unknown))}; known are "
                f"{', '.join(_SETTINGS)}"
            )
        check_common(settings.get("max_attempts"), settings.get("timeout"), f"queue {name!r}")
        check_policy("payload", settings.get("payload"), f"queue {name!r}")
        accept = settings.get("accept")
        return QueueSettings(
            failure_policy=settings.get("failure_policy"),
            max_attempts=settings.get("max_attempts"),
            timeout=settings.get("timeout"),
            permanent_errors=exception_classes(settings.get("permanent_errors") or (), f"queue {name!r}"),
            middleware=check_middleware(settings.get("middleware") or (), f"queue {name!r}"),
            accept=None if accept is None else accepted_names(accept),
            envelope=envelope_policy(settings.get("envelope"), f"queue {name!r}"),
            payload=settings.get("payload"),
        )

    def _conflicts(
        self,
        queue: Any,
        maker: Any,
        batching_policy: Any,
        backoff_policy: Any,
        queue_url: str | None,
        settings: dict[str, Any],
    ) -> list[str]:
        found = []
        if maker is not None and not self._made_alike(queue, maker):
            found.append(f"queue_maker ({type(queue).__name__})")
        if batching_policy is not None and not same(batching_policy, queue.batching_policy):
            found.append(f"batching_policy ({queue.batching_policy!r})")
        if backoff_policy is not None and not same(backoff_policy, queue.backoff_policy):
            found.append(f"backoff_policy ({queue.backoff_policy!r})")
        if queue_url is not None and queue_url != queue.queue_url:
            found.append(f"queue_url ({queue.queue_url!r})")
        if settings:
            asked = self._settings(queue.name, settings)
            known: QueueSettings = queue.settings
            found += [name for name in asked.differences(known) if settings.get(name) is not None]
        return found

    def _made_alike(self, queue: Any, maker: Any) -> bool:
        if isinstance(maker, type):
            return isinstance(queue, maker)
        before = self._makers.get(queue.name)
        if isinstance(maker, partial) and isinstance(before, partial):
            return (
                maker.func == before.func
                and maker.args == before.args
                and maker.keywords.keys() == before.keywords.keys()
                and all(same(value, before.keywords[key]) for key, value in maker.keywords.items())
            )
        if isinstance(maker, partial) and isinstance(maker.func, type):
            return not maker.keywords and isinstance(queue, maker.func)
        # Two functions that may make the same: that cannot be told.
        return True

    def list_on_sqs(self) -> list[str]:
        """Names, without the prefix, of all queues on SQS that have the prefix."""
        prefix = self._env.queue_prefix
        names: list[str] = []
        request: dict[str, Any] = {"MaxResults": 1000}
        if prefix:
            request["QueueNamePrefix"] = prefix
        while True:
            answer = self._env.sqs_client.list_queues(**request)
            names += [url.rsplit("/", 1)[-1][len(prefix) :] for url in answer.get("QueueUrls") or ()]
            token = answer.get("NextToken")
            if not token:
                return names
            request["NextToken"] = token

    def names_to_work(self) -> list[str]:
        """Names of the queues with a processor here that exist on SQS and are no dead-letter queues."""
        declared = [name for name, queue in self._env.queues.items() if queue.has_processors]
        try:
            on_sqs = set(self.list_on_sqs())
        except Exception as error:
            if classify(error) is not ErrorKind.DENIED:
                raise
            logger.warning("These credentials may not list queues; all that are declared are worked")
            on_sqs = set(declared)
        idle = sorted(on_sqs - set(declared))
        if idle:
            logger.info("Queues without a processor here are left alone: %s", ", ".join(idle))
        names = [name for name in declared if name in on_sqs or self._env.queues[name].queue_url]
        dead_letters = self._dead_letter_names(names)
        return [name for name in names if name not in dead_letters]

    def _dead_letter_names(self, names: list[str]) -> set[str]:
        found = {name for name in names if self._is_dead_letter_queue(self._env.queues[name])}
        by_sqs_name = {self._env.get_sqs_queue_name(name): name for name in names}
        for name in names:
            policy = self._redrive_policy(self._env.queues[name])
            target = str(policy.get("deadLetterTargetArn", "")).rsplit(":", 1)[-1]
            if target in by_sqs_name:
                found.add(by_sqs_name[target])
        return found

    @staticmethod
    def _is_dead_letter_queue(queue: GenericQueue) -> bool:
        return getattr(queue, "upstream_queue", None) is not None

    def _redrive_policy(self, queue: GenericQueue) -> dict[str, Any]:
        try:
            attributes = queue.transport.get_queue_attributes(queue.url, ["RedrivePolicy"])
            policy: dict[str, Any] = json.loads(attributes.get("RedrivePolicy") or "{}")
        except Exception as error:  # noqa: BLE001 - the worker itself says what is wrong with the queue
            logger.warning("Cannot read the redrive policy of queue %s: %s", queue.name, error)
            return {}
        return policy
