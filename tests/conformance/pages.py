"""Pages of the AWS documentation, and the marker by which a case names the one that it checks."""

from __future__ import annotations

import pytest

__all__ = ["api", "documented", "guide", "memory_only"]

ROOT = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest"


def api(operation: str) -> str:
    """The API reference of an operation or data type."""
    return f"{ROOT}/APIReference/API_{operation}.html"


def guide(page: str) -> str:
    """A page of the developer guide."""
    return f"{ROOT}/SQSDeveloperGuide/{page}.html"


def documented(url: str) -> pytest.MarkDecorator:
    """Mark a case with the page that it is taken from. Every case must have one."""
    return pytest.mark.documented(url)


def memory_only(reason: str) -> pytest.MarkDecorator:
    """Mark a case that runs on the memory backend alone, with the reason."""
    return pytest.mark.memory_only(reason)
