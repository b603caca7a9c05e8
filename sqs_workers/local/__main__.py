"""``python -m sqs_workers.local``: an SQS endpoint as a process."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqs_workers.exceptions import MissingExtraError
from sqs_workers.local.rules import FaultPlan

if TYPE_CHECKING:
    from sqs_workers.local.endpoint import Endpoint

__all__ = ["main"]

DEFAULT_PORT = 9324


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Returns 0 after a signal, 2 if it cannot begin."""
    try:
        # Names the extra if it is missing.
        from sqs_workers.local import LocalServer  # noqa: F401
    except MissingExtraError as error:
        print(error, file=sys.stderr)
        return 2
    from sqs_workers.local.backend import Backend
    from sqs_workers.local.endpoint import Endpoint
    from sqs_workers.local.server import run

    arguments = _parser().parse_args(argv)
    try:
        faults = FaultPlan(arguments.fault, seed=arguments.seed)
    except ValueError as error:
        print(f"--fault: {error}", file=sys.stderr)
        return 2
    if not _is_loopback(arguments.host):
        print(
            f"Warning: {arguments.host} can be reached from other machines, and this endpoint checks no "
            "credentials: whoever reaches it may read, send and delete messages.",
            file=sys.stderr,
        )
    endpoint = Endpoint(Backend(), faults, arguments.latency_ms / 1000)
    try:
        run(_serve(endpoint, arguments.host, arguments.port))
    except OSError as error:
        print(
            f"Cannot listen at {arguments.host}:{arguments.port}: {error.strerror or error}. "
            "Choose another --port (0 takes any free one) or --host.",
            file=sys.stderr,
        )
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sqs_workers.local",
        description="Serves an SQS endpoint whose queues live in the memory of this process.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    parser.add_argument(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        help="port to listen at, 0 for any free one (default: %(default)s)",
    )
    parser.add_argument(
        "--latency-ms",
        type=_milliseconds,
        default=0.0,
        metavar="N",
        help="milliseconds that each answer takes (default: as fast as can be)",
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="OPERATION:KIND[:PROBABILITY[:NAME=VALUE,...]]",
        help="let calls go wrong, as in ReceiveMessage:throttle:0.05; may be given again",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="what the random numbers of the faults follow from"
    )
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"a port lies between 0 and 65535, not at {port}")
    return port


def _milliseconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of milliseconds")
    return value


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _serve(endpoint: Endpoint, host: str, port: int) -> None:
    from sqs_workers.local.server import start_server

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner, url = await start_server(endpoint, host, port)
    print(f"SQS endpoint ready at {url}", flush=True)
    try:
        await stop.wait()
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    sys.exit(main())
