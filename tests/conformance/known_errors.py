"""Where the emulators are known to answer other than AWS documents, case by case.

Each is expected to fail, strictly: an emulator that is mended makes its entry fail, to be removed.
A case is named as in the test report, without its backend.
"""

from __future__ import annotations

__all__ = ["KNOWN_ERRORS", "NOT_RUN"]

KNOWN_ERRORS: dict[str, dict[str, str]] = {"moto": {}, "ministack": {}}

NOT_RUN: dict[str, dict[str, str]] = {"moto": {}, "ministack": {}}
"""Cases that would hang the emulator or spoil it for the cases after them."""
