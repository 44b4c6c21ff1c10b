"""A launch script of the users' own on another host: its configuration comes here with its end."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.support import rlx
from tests.conftest import CASES
from tests.loopback import Loopback, loopback
from tests.runs.far import Far, far

__all__ = ["Loopback", "far", "loopback"]

TRAINING = f"cat {CASES / 'printed-config/log'} {CASES / 'logs/tiny-baseline/log'}"


def test_it_starts_at_home_there_and_is_held_to_its_configuration_here(far: Far, tmp_path: Path) -> None:
    script = tmp_path / "run_grpo.sh"
    script.write_text(f'pwd\n{TRAINING}\necho "$0" >&2\n', encoding="utf-8")
    run = rlx("launch", "--script", str(script), "--name", "mine", "--host", "ssh://loop").stdout.strip()
    rlx("wait", run, code=None)
    (row,) = json.loads(rlx("status", run, "--json").stdout)["runs"]
    assert (row["state"], row["host"]) == ("finished", "ssh://loop")
    assert "RLX716" in [finding["id"] for finding in row["verdict"]["findings"]]
    assert row["verdict"]["status"] == "valid" and "5 validations, " in row["verdict"]["sentence"]
    assert (far.runs / run / "latest/log").read_text(encoding="utf-8").startswith(f"{far.loopback.home}\n")
