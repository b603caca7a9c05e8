"""What the workers of this machine say of their jobs, for ``top``: a small file each, in a directory of the user's.

The files hold names and numbers alone. The directory is ``SQS_WORKERS_STATE_DIR``, or one of the user's own
under ``XDG_RUNTIME_DIR`` or the directory for temporary files; empty, nothing is written.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqs_workers.worker import JobStats, Worker

__all__ = ["JobState", "Publisher", "merged", "published_jobs"]

logger = logging.getLogger("sqs_workers.app")

_EVERY_SECONDS = 1.0
_RATE_SECONDS = 10.0
_FRESH_SECONDS = 10.0
_LEFTOVER_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class JobState:
    """A job, in all processes that run it.

    :ivar queue_name: name of its queue on SQS.
    :ivar per_second: runs a second that ended, over the last ten seconds.
    """

    queue_name: str
    job_name: str
    stats: JobStats
    per_second: float = 0.0


class Publisher:
    """Says about once a second how the jobs of this process do. What stands in its way ends it, not the worker.

    :param sqs_names: name of each queue on SQS, by its name in the workers.
    """

    def __init__(self, workers: Collection[Worker], sqs_names: Mapping[str, str]) -> None:
        self._workers = workers
        self._names = sqs_names
        self._seen: dict[tuple[str, str], deque[tuple[float, int]]] = {}
        self._last = float("-inf")
        self._path: Path | None = None
        try:
            directory = _directory(create=True)
            if directory is not None:
                _remove_leftovers(directory)
                self._path = directory / f"{os.getpid()}-{uuid.uuid4().hex}.json"
        except OSError as error:
            self._give_up(error)

    def tick(self) -> None:
        """Write, if it is time."""
        now = time.monotonic()
        if self._path is None or now - self._last < _EVERY_SECONDS:
            return
        self._last = now
        jobs = [asdict(state) for state in self._states(now)]
        text = json.dumps({"pid": os.getpid(), "written": time.time(), "jobs": jobs})
        written = self._path.with_suffix(".new")
        try:
            written.write_text(text, encoding="utf-8")
            written.replace(self._path)
        except OSError as error:
            self._give_up(error)

    def _states(self, now: float) -> Iterator[JobState]:
        for worker in self._workers:
            for queue_name, source in worker.stats().sources.items():
                for job_name, stats in source.jobs.items():
                    rate = self._rate((queue_name, job_name), stats.succeeded + stats.failed, now)
                    yield JobState(self._names.get(queue_name, queue_name), job_name, stats, rate)

    def _rate(self, key: tuple[str, str], total: int, now: float) -> float:
        seen = self._seen.setdefault(key, deque())
        seen.append((now, total))
        while len(seen) > 2 and seen[1][0] <= now - _RATE_SECONDS:
            seen.popleft()
        since, before = seen[0]
        return (total - before) / (now - since) if now > since else 0.0

    def close(self) -> None:
        """Take the file away."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            self._path = None

    def _give_up(self, error: OSError) -> None:
        logger.debug("`top` will not know of the jobs here: %s", type(error).__name__)
        self._path = None


def published_jobs() -> list[JobState]:
    """Jobs of all workers that said something in the last seconds; ``queue_name`` is the name on SQS."""
    found: list[JobState] = []
    try:
        directory = _directory(create=False)
        paths = [] if directory is None else sorted(directory.glob("*.json"))
    except OSError:
        return []
    for path in paths:
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            if abs(time.time() - said["written"]) <= _FRESH_SECONDS:
                found += [_state(job) for job in said["jobs"]]
        except (OSError, ValueError, KeyError, TypeError):
            # Gone meanwhile, or of another version.
            continue
    return merged(found)


def merged(states: list[JobState]) -> list[JobState]:
    """One state for each job, whatever the number of processes that run it; by queue and name."""
    by_job: dict[tuple[str, str], JobState] = {}
    for state in states:
        key = (state.queue_name, state.job_name)
        other = by_job.get(key)
        by_job[key] = state if other is None else _sum(other, state)
    return [by_job[key] for key in sorted(by_job)]


def _sum(one: JobState, other: JobState) -> JobState:
    mine, theirs = one.stats, other.stats
    stats = JobStats(
        mine.running + theirs.running,
        mine.succeeded + theirs.succeeded,
        mine.failed + theirs.failed,
        tuple(sorted(mine.durations + theirs.durations)),
        theirs.last_error or mine.last_error,
    )
    return JobState(one.queue_name, one.job_name, stats, one.per_second + other.per_second)


def _state(job: Mapping[str, Any]) -> JobState:
    stats = job["stats"]
    return JobState(
        str(job["queue_name"]),
        str(job["job_name"]),
        JobStats(
            int(stats["running"]),
            int(stats["succeeded"]),
            int(stats["failed"]),
            tuple(float(seconds) for seconds in stats["durations"]),
            str(stats["last_error"]),
        ),
        float(job["per_second"]),
    )


def _directory(*, create: bool) -> Path | None:
    """Where the files are; ``None`` for nowhere.

    :raises OSError: it is not there, or somebody else could write to it.
    """
    chosen = os.environ.get("SQS_WORKERS_STATE_DIR")
    if chosen == "":
        return None
    user = os.getuid() if hasattr(os, "getuid") else 0
    if chosen is None:
        base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        directory = Path(base, f"sqs-workers-{user}")
    else:
        directory = Path(chosen)
    if create:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Not the target of a link: in a directory for all, anybody could have put one there.
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(str(directory))
    if hasattr(os, "getuid") and (found.st_uid != user or found.st_mode & 0o022):
        raise PermissionError(f"{directory} is not this user's alone")
    return directory


def _remove_leftovers(directory: Path) -> None:
    """Files of processes that were killed."""
    for path in directory.iterdir():
        if path.suffix in (".json", ".new"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
                    path.unlink()
