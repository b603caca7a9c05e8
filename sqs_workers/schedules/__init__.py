"""Jobs at a time of day: by EventBridge Scheduler, or by a beat of one's own."""

from __future__ import annotations

from sqs_workers.schedules.beat import Beat
from sqs_workers.schedules.eventbridge import EventBridgeScheduler
from sqs_workers.schedules.leases import MemoryLease, SlotLease
from sqs_workers.schedules.syncing import ScheduleChange, sync_schedules

__all__ = [
    "Beat",
    "EventBridgeScheduler",
    "MemoryLease",
    "ScheduleChange",
    "SlotLease",
    "sync_schedules",
]
