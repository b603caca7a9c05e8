"""Answers of sinks on their way to the event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest

from sqs_workers.app.landing import Landing

PATIENCE = 10.0


def test_answers_that_come_together_wake_the_loop_once() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        woken = 0
        wake = loop.call_soon_threadsafe

        def counted(*arguments: object) -> object:
            nonlocal woken
            woken += 1
            return wake(*arguments)  # type: ignore[arg-type]

        landing = Landing()
        futures: list[Future[None]] = [Future() for _ in range(20)]
        waiting = [asyncio.ensure_future(landing.wait(future)) for future in futures]
        await asyncio.sleep(0)
        loop.call_soon_threadsafe = counted  # type: ignore[method-assign,assignment]
        # The loop stands still meanwhile, as it does while it works.
        thread = threading.Thread(target=lambda: [future.set_result(None) for future in futures])
        thread.start()
        thread.join(PATIENCE)
        await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE)
        return woken

    assert asyncio.run(main()) == 1


def test_each_waits_for_its_own_answer_and_gets_its_own_error() -> None:
    async def main() -> list[object]:
        landing = Landing()
        futures: list[Future[None]] = [Future() for _ in range(3)]
        waiting = [asyncio.ensure_future(landing.wait(future)) for future in futures]
        await asyncio.sleep(0)
        futures[2].set_result(None)
        await asyncio.wait_for(waiting[2], PATIENCE)
        assert not waiting[0].done()
        futures[0].set_exception(KeyError("no"))
        futures[1].set_result(None)
        return await asyncio.gather(*waiting, return_exceptions=True)

    answers = asyncio.run(main())
    assert isinstance(answers[0], KeyError)
    assert answers[1:] == [None, None]


def test_an_answer_that_is_there_already_is_taken() -> None:
    future: Future[None] = Future()
    future.set_result(None)
    asyncio.run(asyncio.wait_for(Landing().wait(future), PATIENCE))


def test_who_is_cancelled_cancels_what_he_waits_for() -> None:
    async def main() -> Future[None]:
        future: Future[None] = Future()
        waiting = asyncio.ensure_future(Landing().wait(future))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return future

    assert asyncio.run(main()).cancelled()


def test_an_answer_after_the_loop_has_ended_reaches_nobody_and_does_no_harm() -> None:
    future: Future[None] = Future()
    landing = Landing()

    async def leave() -> None:
        asyncio.ensure_future(landing.wait(future))  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(0)
        future.set_running_or_notify_cancel()

    asyncio.run(leave())
    future.set_result(None)
    # A loop that comes after it is woken all the same.
    another: Future[None] = Future()

    async def main() -> None:
        threading.Timer(0.01, another.set_result, [None]).start()
        await asyncio.wait_for(landing.wait(another), PATIENCE)

    asyncio.run(main())
