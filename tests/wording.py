"""What rlx says, in one place: snapshots in `tests/wording/`, one file for each module of tests that asks for them.

A test compares ids, numbers, states and exit codes itself, and hands the words to `wording`. After a change of words:
`pytest --snapshot-update PATH`, and a commit of the snapshots alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.amber import AmberSnapshotExtension

_TESTS = Path(__file__).parent


class Wording(AmberSnapshotExtension):
    """Keep the snapshots of tests/evidence/test_cases.py in tests/wording/evidence-test_cases.ambr."""

    @classmethod
    def dirname(cls, *, test_location: Any) -> str:
        return str(_TESTS / "wording")

    @classmethod
    def get_file_basename(cls, *, test_location: Any, index: Any) -> str:
        return "-".join(Path(test_location.filepath).relative_to(_TESTS).with_suffix("").parts)

    @classmethod
    def matches_test_location(cls, *, test_location: Any, snapshot_location: str) -> bool:
        return Path(snapshot_location).stem == cls.get_file_basename(test_location=test_location, index=0)


@pytest.fixture
def wording(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(Wording)


_OF_THIS_MACHINE = re.compile(r"^rlx: (?:warning|note) RLX5\d\d .*\n(?: +fix: .*\n)?", re.MULTILINE)


def settled(text: str, named: Mapping[str, str]) -> str:
    """Replace each value by its name in angle brackets, longest value first, and leave out what this machine is like.

    A launch also says what its preflight found of the host, such as many zombie processes.
    """
    text = _OF_THIS_MACHINE.sub("", text)
    for value in sorted(named, key=len, reverse=True):
        text = text.replace(value, f"<{named[value]}>")
    return text
