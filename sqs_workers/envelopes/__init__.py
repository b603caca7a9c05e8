"""What AWS wraps around a message, and how it is taken off.

::

    orders = sqs.queue("orders", envelope=SNSEnvelope(topics=["arn:aws:sns:eu-west-1:1234:orders"]))
"""

from __future__ import annotations

from sqs_workers.envelopes.documents import OutgoingEvent
from sqs_workers.envelopes.filters import matches_filter
from sqs_workers.envelopes.kinds import EventBridgeEvent, S3Notification, S3Record, SNSNotification
from sqs_workers.envelopes.opened import Ignored, IncomingEvent, Opened, OwnJob
from sqs_workers.envelopes.policies import (
    AutoEnvelope,
    Envelope,
    EventBridgeEnvelope,
    S3Event,
    SNSEnvelope,
    envelope_policy,
)

__all__ = [
    "AutoEnvelope",
    "Envelope",
    "EventBridgeEnvelope",
    "EventBridgeEvent",
    "Ignored",
    "IncomingEvent",
    "Opened",
    "OutgoingEvent",
    "OwnJob",
    "S3Event",
    "S3Notification",
    "S3Record",
    "SNSEnvelope",
    "SNSNotification",
    "envelope_policy",
    "matches_filter",
]
