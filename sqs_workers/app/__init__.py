"""Workers from a YAML file: queues, handlers and sinks, without a program."""

from __future__ import annotations

from sqs_workers.app.loading import load, loads
from sqs_workers.app.problems import AppFileError, Problem
from sqs_workers.app.spec import App, AppSettings, Task

__all__ = ["App", "AppFileError", "AppSettings", "Problem", "Task", "load", "loads"]
