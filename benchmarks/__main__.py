"""``python -m benchmarks``: one command for all targets."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.endpoint import EndpointProcess
from benchmarks.lean_targets import LEAN_TARGETS
from benchmarks.measure import Bench
from benchmarks.peers import CONTENDERS, UnavailableError, default_cache, prepare, version_of
from benchmarks.report import as_json, as_markdown
from benchmarks.targets import TARGETS, Plan

ALL_TARGETS = {**TARGETS, **LEAN_TARGETS}


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 with ``--check`` if a target was missed."""
    arguments = _parser().parse_args(argv)
    if not Path("/proc/self/stat").exists():
        print(
            "The benchmarks read the CPU and memory of processes from /proc: run them on Linux.",
            file=sys.stderr,
        )
        return 2
    pythons = _pythons(arguments.contenders, arguments.cache)
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    plan = Plan(rounds, 0.2 if arguments.quick else 1.0, tuple(pythons), arguments.quick)
    results = []
    with EndpointProcess() as endpoint:
        bench = Bench(endpoint, pythons)
        try:
            for key in arguments.only:
                began = time.monotonic()
                results.append(ALL_TARGETS[key](bench, plan))
                print(f"{key} took {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        finally:
            bench.close()
    versions = {name: version_of(CONTENDERS[name], python) for name, python in pythons.items()}
    markdown = as_markdown(results, versions, plan)
    print(markdown)
    if arguments.markdown:
        arguments.markdown.write_text(markdown)
    if arguments.json:
        arguments.json.write_text(json.dumps(as_json(results, versions, plan), indent=1))
    missed = any(enough is False for result in results for _, _, enough in result.verdicts)
    return 1 if arguments.check and missed else 0


def _pythons(names: list[str], cache: Path) -> dict[str, str]:
    pythons = {}
    for name in names:
        try:
            pythons[name] = prepare(CONTENDERS[name], cache)
        except UnavailableError as error:
            print(f"Left out: {error}", file=sys.stderr)
    return pythons


def _chosen(known: Sequence[str]) -> object:
    def parse(text: str) -> list[str]:
        chosen = [part.strip() for part in text.split(",") if part.strip()]
        unknown = [part for part in chosen if part not in known]
        if unknown or not chosen:
            raise argparse.ArgumentTypeError(f"{text!r} is not among {', '.join(known)}")
        return chosen

    return parse


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        type=_chosen(list(ALL_TARGETS)),  # type: ignore[arg-type]
        default=list(ALL_TARGETS),
        metavar="T1,T4",
        help="these targets alone",
    )
    parser.add_argument(
        "--contenders",
        type=_chosen(list(CONTENDERS)),  # type: ignore[arg-type]
        default=list(CONTENDERS),
        metavar="NAME,NAME",
        help=f"these contenders alone, of {', '.join(CONTENDERS)}",
    )
    parser.add_argument("--rounds", type=int, help="how often each is measured (default: 5, quick: 1)")
    parser.add_argument(
        "--quick", action="store_true", help="a fifth of the messages, one round: a smoke test"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=default_cache(),
        help="where the peers' environments are kept (%(default)s)",
    )
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file, too")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
