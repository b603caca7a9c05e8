"""What a look at one thing brought."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["Level", "Sign", "aws", "set_queue"]

Level: TypeAlias = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing that was looked at.

    :ivar what: a queue, a topic, a library.
    :ivar message: what was seen.
    :ivar code: name of the finding, as in ``docs/doctor.md``; empty if all is well.
    :ivar why: what follows from it.
    :ivar mend: the command that mends it, or what to do where no command can.
    """

    level: Level
    what: str
    message: str
    code: str = ""
    why: str = ""
    mend: str = ""


def aws(*words: str, region: str | None = None) -> str:
    """A command of the aws CLI, quoted for a shell."""
    more = [] if region is None else ["--region", region]
    return shlex.join(["aws", *words, *more])


def permit(*actions: str, resource: str = "*") -> str:
    """What to do where credentials lack permissions."""
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": resource}
    return f"add to the policy of the role or user: {json.dumps(statement)}"


def set_queue(url: str, attributes: dict[str, Any]) -> str:
    """The command that sets attributes of a queue; values that are no texts are written as JSON."""
    texts = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in attributes.items()
    }
    return aws("sqs", "set-queue-attributes", "--queue-url", url, "--attributes", json.dumps(texts))
