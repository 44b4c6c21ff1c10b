"""docs/api.md names commands, options, keys, findings and exit codes that there are."""

from __future__ import annotations

import json
import re
import shlex

import pytest

import rlx as front_door
from rlx.errors import ExitCode
from tests.cli.support import rlx
from tests.conftest import CASES, REPOSITORY
from tests.recorded import place_runs

PAGE = (REPOSITORY / "docs/api.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"(?m)^ {4}(rlx .*?)(?:  +#.*)?$", PAGE)


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_have_the_options_that_it_gives_them(command: str) -> None:
    program, name, *words = shlex.split(command)
    told = rlx(name, "--help").stdout
    assert program == "rlx"
    assert all(re.search(rf"(?<![\w-]){word}(?![\w-])", told) for word in words if word.startswith("-")), told


def test_it_names_findings_keys_and_exit_codes_that_there_are() -> None:
    for finding in re.findall(r"RLX\d{3}", PAGE):
        assert front_door.explain(finding).what
    rows = re.findall(r"(?m)^\| ([\d, ]+) \|", PAGE)
    assert {int(code) for row in rows for code in row.split(",")} <= set(ExitCode)
    place_runs(CASES / "six-runs")
    compared = json.loads(rlx("compare", "baseline", "aqn", "--json").stdout)
    assert {"claim", "answer", "registered", "left_out"} <= set(compared)
    assert compared["claim"].startswith("exploratory")
