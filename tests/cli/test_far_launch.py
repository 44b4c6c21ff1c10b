"""A launch over a long line."""

from __future__ import annotations

import shutil
import sys

from tests.rig.machine import REPOSITORY
from tests.rig.rig import Rig


def test_a_launch_logs_in_once_and_its_questions_wait_for_that(rig: Rig) -> None:
    client, host = rig.client, rig.host("h1")
    host.delay(400)
    text = (REPOSITORY / "recipes/tiny-cpu.yaml").read_text(encoding="utf-8")
    client.path("/root/recipe.yaml").write_text(
        text.replace("kind: verl,", f"kind: verl, python: {sys.executable},"), encoding="utf-8"
    )
    shutil.copytree(REPOSITORY / "recipes/tiny-cpu", client.path("/root/tiny-cpu"))
    log = host.path("/run/sshd.log")
    before = log.read_text(encoding="utf-8").count("Accepted publickey")
    client.rlx("launch", "/root/recipe.yaml", "--host", "h1", "--arm", "baseline", "--dry-run", check=False)
    assert log.read_text(encoding="utf-8").count("Accepted publickey") == before + 1
