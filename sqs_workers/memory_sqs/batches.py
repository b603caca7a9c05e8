"""What the batch operations check of a request as a whole, and how they report an entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sqs_workers.limits import MAX_BATCH_ENTRIES
from sqs_workers.memory_sqs.faults import (
    Fault,
    batch_entry_ids_not_distinct,
    empty_batch_request,
    invalid_batch_entry_id,
    too_many_entries,
)

__all__ = ["check_entries", "failed_entry", "for_each_entry"]

_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")

Entry = Mapping[str, Any]


def check_entries(operation: str, params: Mapping[str, Any]) -> list[Entry]:
    """The entries of a batch.

    :raises Fault: for none, more than 10, or ids that are malformed or not distinct.
    """
    entries: list[Entry] = params["Entries"]
    if not entries:
        raise empty_batch_request(operation)
    if len(entries) > MAX_BATCH_ENTRIES:
        raise too_many_entries(len(entries))
    seen: set[str] = set()
    for entry in entries:
        entry_id = entry["Id"]
        if not _ENTRY_ID.fullmatch(entry_id):
            raise invalid_batch_entry_id()
        if entry_id in seen:
            raise batch_entry_ids_not_distinct(entry_id)
        seen.add(entry_id)
    return entries


def failed_entry(entry_id: str, fault: Fault) -> dict[str, Any]:
    return {"Id": entry_id, "SenderFault": True, "Code": fault.code, "Message": fault.message}


def for_each_entry(
    operation: str, params: Mapping[str, Any], act: Callable[[Entry], None]
) -> dict[str, list[dict[str, Any]]]:
    """Act on each entry by itself: one that is refused fails alone."""
    successful: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for entry in check_entries(operation, params):
        fault = _try(act, entry)
        if fault is None:
            successful.append({"Id": entry["Id"]})
        else:
            failed.append(failed_entry(entry["Id"], fault))
    answer: dict[str, list[dict[str, Any]]] = {}
    if successful:
        answer["Successful"] = successful
    if failed:
        answer["Failed"] = failed
    return answer


def _try(act: Callable[[Entry], None], entry: Entry) -> Fault | None:
    try:
        act(entry)
    except Fault as fault:
        return fault
    return None
