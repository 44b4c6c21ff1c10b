"""Every command that reads writes nothing: not where runs are, not in the folder of leases, not in rlx's own data."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rlx.runs.index.run_index import INDEX_FILE
from tests.cli.support import rlx
from tests.cli.test_help import LEAVES
from tests.conftest import REPOSITORY
from tests.runs.toys import ended, home, start, toy_plan, until

RECIPE = str(REPOSITORY / "recipes/tiny-cpu.yaml")

READS = {
    "recipes": "",
    "show": RECIPE,
    "validate": RECIPE,
    "plan": f"{RECIPE} --host local",
    "power": RECIPE,
    "layouts": "qwen2.5-1.5b-gsm8k-npu",
    "migrate": "qwen2.5-1.5b-gsm8k-npu --engine megatron",
    "schema": "",
    "status": "-v",
    "queue": "",
    "logs": "--grep step",
    "metrics": "",
    "diagnose": "",
    "wait": "",
    "compare": "baseline aqn",
    "experiments": "",
    "explain": "RLX889",
    "doctor": "local",
    "config list": "",
    "config get": "host",
    "hosts list": "",
    "hosts show": "local",
    "data check": RECIPE,
    "aqn schedule": RECIPE,
}
"""With what each is typed. Waiting for runs that have ended only reads, too."""
ACTS = {
    *(
        "init",
        "rehearse",
        "launch",
        "run",
        "tag",
        "watch",
        "attach",
        "stop",
        "retry",
        "rm",
        "waive",
        "prune",
        "pull",
        "track",
        "import",
    ),
    *("report", "export", "verify", "demo", "hosts add", "hosts start", "hosts remove", "hosts reindex", "hosts trust"),
    *("config set", "config unset", "data tiny-cpu", "data gsm8k", "aqn audit"),
}
"""Write something that was asked for, or start a program that does."""
CACHES = ("cache", "parsed", "mirror", "trees", "sightings")
"""What of rlx's own data is a copy of what hosts say, or computed of it: all of it can be deleted."""

STEPS = r"""
for step in 1 2 3; do
    echo "(TaskRunner pid=7) step:$step - timing_s/step:0.5 - val-core/toy/acc/mean@1:0.25"
done
"""


def test_every_command_reads_or_acts() -> None:
    assert READS.keys() | ACTS == LEAVES.keys() and not READS.keys() & ACTS


@pytest.fixture
def two_arms() -> None:
    for ref in start(toy_plan(STEPS, arm="baseline"), toy_plan(STEPS, arm="aqn")):
        ended(ref)
        until(lambda ref=ref: not (ref.run_dir / "ticket").exists(), "the run is tidied up")  # type: ignore[misc]


@pytest.mark.usefixtures("two_arms")
def test_reading_commands_write_nothing(tmp_path: Path) -> None:
    # What a first look may make: the index.
    rlx("status")
    before = written(tmp_path)
    assert any(name.endswith("manifest.json") for name in before) and "table runs" in before
    for command, words in READS.items():
        done = rlx(*command.split(), *words.split(), code=None)
        assert done.returncode in (0, 1, 5, 10, 14), f"{command}: {done.stderr}"
        after = written(tmp_path)
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        assert not changed, f"rlx {command}"


def written(folder: Path) -> dict[str, str]:
    """All that lies there, with its digest, and the tables of the index; but for caches."""
    found = {}
    for path in folder.rglob("*"):
        if path.relative_to(folder).parts[:2][-1] not in (*CACHES, INDEX_FILE):
            found[str(path)] = content_of(path)
    with closing(sqlite3.connect(home() / INDEX_FILE)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            if table not in CACHES:
                found[f"table {table}"] = repr(db.execute(f"SELECT * FROM {table}").fetchall())
    return found


def content_of(path: Path) -> str:
    """Not the time of a folder, since a cache may be made in it."""
    if path.is_symlink():
        return str(path.readlink())
    if not path.is_file():
        return "folder"
    return f"{path.stat().st_mtime_ns} {hashlib.sha256(path.read_bytes()).hexdigest()}"
