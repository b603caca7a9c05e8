"""The backend behind every client of a session, and behind an HTTP front end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from sqs_workers.clock import Clock
from sqs_workers.memory_sqs import (
    administration,
    move_tasks,
    permissions,
    receiving,
    sending,
    settling,
    tagging,
)
from sqs_workers.memory_sqs.account import Account
from sqs_workers.memory_sqs.contract import client_error, validate
from sqs_workers.memory_sqs.faults import Fault, unsupported
from sqs_workers.memory_sqs.receiving import Poll

if TYPE_CHECKING:
    from sqs_workers.memory_sqs.client import MemoryClient

__all__ = ["MemoryAWS"]

Operation = Callable[[Account, Mapping[str, Any]], dict[str, Any]]

_OPERATIONS: dict[str, Operation] = {
    "AddPermission": permissions.add_permission,
    "CancelMessageMoveTask": move_tasks.cancel_message_move_task,
    "ChangeMessageVisibility": settling.change_message_visibility,
    "ChangeMessageVisibilityBatch": settling.change_message_visibility_batch,
    "CreateQueue": administration.create_queue,
    "DeleteMessage": settling.delete_message,
    "DeleteMessageBatch": settling.delete_message_batch,
    "DeleteQueue": administration.delete_queue,
    "GetQueueAttributes": administration.get_queue_attributes,
    "GetQueueUrl": administration.get_queue_url,
    "ListDeadLetterSourceQueues": administration.list_dead_letter_source_queues,
    "ListMessageMoveTasks": move_tasks.list_message_move_tasks,
    "ListQueues": administration.list_queues,
    "ListQueueTags": tagging.list_queue_tags,
    "PurgeQueue": administration.purge_queue,
    "ReceiveMessage": receiving.receive_message,
    "RemovePermission": permissions.remove_permission,
    "SendMessage": sending.send_message,
    "SendMessageBatch": sending.send_message_batch,
    "SetQueueAttributes": administration.set_queue_attributes,
    "StartMessageMoveTask": move_tasks.start_message_move_task,
    "TagQueue": tagging.tag_queue,
    "UntagQueue": tagging.untag_queue,
}


class MemoryAWS(Account):
    """An imaginary AWS account with its queues in one region. Safe to use from threads.

    :param clock: where the queues read the time and wait; by default a
        :class:`~sqs_workers.clock.SteppableClock`.
    :param region_name: the region in the queues' URLs and ARNs.
    :param account_id: the twelve digits in the queues' URLs and ARNs.
    :param endpoint_url: the beginning of the queues' URLs, by default that of SQS in the region.
        Operations take a ``QueueUrl`` with any host, so an HTTP front end may serve the account
        from elsewhere.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        region_name: str = "us-east-1",
        account_id: str = "123456789012",
        endpoint_url: str | None = None,
    ) -> None:
        super().__init__(clock, region_name, account_id, endpoint_url)
        self._subscriptions = count()

    @property
    def client(self) -> MemoryClient:
        """A client of this account."""
        from sqs_workers.memory_sqs.client import MemoryClient

        return MemoryClient(self)

    @property
    def resource(self) -> Any:
        """A boto3 service resource of this account."""
        from sqs_workers.memory_sqs.resource import make_resource

        return make_resource(self.client)

    def call(self, operation_name: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Do one operation, as a client or a server does.

        :param operation_name: as in the API, ``"SendMessageBatch"``.
        :param params: the arguments in boto3's shape. Their types are not checked here;
            :meth:`validate` does that.
        :returns: the answer in boto3's shape, without ``ResponseMetadata``.
        :raises botocore.exceptions.ClientError: when SQS would refuse; the modeled subclass
            where there is one. ``error.response["ResponseMetadata"]["HTTPStatusCode"]`` is the
            status, ``Error.QueryErrorCode`` the ``__type`` and ``Error.Code`` the first part of
            the ``x-amzn-query-error`` header of the answer over HTTP.

        ``ReceiveMessage`` blocks for its ``WaitTimeSeconds``; see :meth:`receive_now`.
        """
        operation = _OPERATIONS.get(operation_name)
        try:
            if operation is None:
                raise unsupported(f"The operation {operation_name} does not exist.")
            with self.lock:
                if self.running_tasks:
                    move_tasks.run_tasks(self)
                return operation(self, params)
        except Fault as fault:
            raise client_error(fault, operation_name) from None

    def wake_receives(self, queue_url: str) -> None:
        """Answer the long polls of a queue that wait in :meth:`call` now, with what there is.

        Not an operation of SQS, which has nothing like it: spares a worker that stops the rest of its poll.
        """
        with self.lock:
            queue = self.queue_by_url(queue_url)
            queue.wakes += 1
            queue.changed.notify_all()

    def validate(self, operation_name: str, params: Mapping[str, Any]) -> None:
        """Check names and types of arguments as boto3 does.

        :raises botocore.exceptions.ParamValidationError: with botocore's report.
        """
        validate(operation_name, params)

    def receive_now(self, params: Mapping[str, Any]) -> Poll:
        """Look for messages once and never block: ``ReceiveMessage`` for a server with an event loop.

        A server that gets no messages waits until ``poll.wait_seconds`` after the request came in.
        Meanwhile it looks again when the callback of :meth:`subscribe` was called, and when
        ``poll.next_in`` seconds have passed. To miss nothing, subscribe before looking.

        :param params: the arguments of ``ReceiveMessage`` in boto3's shape.
        :raises botocore.exceptions.ClientError: as :meth:`call`.
        """
        try:
            with self.lock:
                if self.running_tasks:
                    move_tasks.run_tasks(self)
                return receiving.poll(self, params)
        except Fault as fault:
            raise client_error(fault, "ReceiveMessage") from None

    def subscribe(self, queue_url: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` whenever a message of the queue may have become available.

        That is when one arrives, is released, is moved here, or no longer blocks its group, when
        the moment given as ``next_in`` may have moved, and when the queue is deleted. Not when
        time alone makes a message visible: that is what ``next_in`` is for.

        The callback runs in the thread that caused the change and with the backend's lock held,
        so it must only set a flag (``loop.call_soon_threadsafe(event.set)``).

        :returns: a function that ends the subscription.
        :raises botocore.exceptions.ClientError: if there is no such queue.
        """
        try:
            with self.lock:
                queue = self.queue_by_url(queue_url)
                token = next(self._subscriptions)
                queue.listeners[token] = callback
        except Fault as fault:
            raise client_error(fault, "ReceiveMessage") from None

        def unsubscribe() -> None:
            with self.lock:
                queue.listeners.pop(token, None)

        return unsubscribe
