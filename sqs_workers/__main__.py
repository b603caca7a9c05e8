"""``python -m sqs_workers``: the command line."""

from __future__ import annotations

import sys

from sqs_workers.cli import main

if __name__ == "__main__":
    sys.exit(main())
