"""The results as Markdown, and as JSON."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import asdict
from typing import Any

from benchmarks.targets import Plan, Result

__all__ = ["as_json", "as_markdown"]


def machine() -> dict[str, Any]:
    import botocore

    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "botocore": botocore.__version__,
    }


def as_json(results: list[Result], versions: dict[str, str], plan: Plan) -> dict[str, Any]:
    return {
        "machine": machine(),
        "versions": versions,
        "rounds": plan.rounds,
        "scale": plan.scale,
        "targets": {result.key: asdict(result) for result in results},
    }


def as_markdown(results: list[Result], versions: dict[str, str], plan: Plan) -> str:
    facts = machine()
    lines = [
        f"Python {facts['python']}, botocore {facts['botocore']}, {facts['system']}, {facts['cpus']} CPUs; "
        f"rounds: {plan.rounds}; medians, in brackets the least and the greatest. "
        + "; ".join(f"{name}: {version}" for name, version in versions.items())
        + ".",
        "",
        "| target | asked of ours | found | |",
        "| --- | --- | ---: | --- |",
    ]
    for result in results:
        for asked, found, enough in result.verdicts:
            mark = {True: "reached", False: "**missed**", None: "-"}[enough]
            lines.append(f"| {result.key} | {asked} | {found} | {mark} |")
    for result in results:
        lines += ["", f"### {result.key}: {result.title}", "", *_table(result)]
        lines += ["", *(f"- {note}" for note in result.notes)] if result.notes else []
    return "\n".join(lines) + "\n"


def _table(result: Result) -> list[str]:
    columns = list(dict.fromkeys(name for samples in result.samples.values() for name in samples.values))
    lines = ["| | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for contender, samples in result.samples.items():
        cells = [_cell(samples.values.get(column, [])) for column in columns]
        lines.append(f"| {contender} | " + " | ".join(cells) + " |")
    return lines


def _cell(values: list[float]) -> str:
    if not values:
        return "-"
    median = _number(statistics.median(values))
    low, high = _number(min(values)), _number(max(values))
    return median if low == high else f"{median} ({low} to {high})"


def _number(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
