from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqs_workers.transport import Mode
from tests.servers import start_local


@pytest.fixture(params=["boto3", "lean"])
def transport(request: pytest.FixtureRequest) -> Mode:
    """What workers and senders talk through."""
    chosen: Mode = request.param
    return chosen


@pytest.fixture
def endpoint() -> Iterator[str]:
    with start_local() as url:
        yield url
