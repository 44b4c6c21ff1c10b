"""An ordinary user of the host, and a container whose user is root: each can read what the other writes."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine import Engine
from tests.open_clone import run_python

_UID = 61234

_SESSION = f"""
import json, os
from dataclasses import replace
from rlx.hosts import local_site, locate
from rlx.runs import query_leases
from rlx.runs import stop
from rlx.model import LOCAL
from tests.runs.toys import FOREVER, ended, log_of, see, start, toy_plan, until

os.setgroups([]); os.setgid({_UID}); os.setuid({_UID})
site, warnings = locate(replace(local_site(), root="~/rlx", container="trainer"))
script = "mkdir $RLX_RUN_DIR/made; echo x >$RLX_RUN_DIR/made/file; echo up; umask; id -u; "
plan = replace(toy_plan(script + FOREVER), site=site, secrets=("TOKEN",))
(ref,) = start(plan, secrets={{"TOKEN": "s3cret"}})
until(lambda: see(ref).leader_live and len(log_of(ref).split()) >= 3, "the script runs")
found = {{
    "roots": [site.root, site.container_root, site.place.inside],
    "warnings": warnings,
    "log": log_of(ref).split(),
    "made": (ref.run_dir / "made" / "file").read_text(),
    "env": (ref.run_dir / "env").exists(),
    "members": see(ref).members >= 2,
    "held": [lease.run_id == ref.run_id for lease in query_leases(LOCAL, site.leases).held],
    "left": stop(ref, 1).left,
    "state": ended(ref).state,
}}
print(json.dumps(found))
"""


@pytest.fixture
def user_home(engine: Engine) -> Iterator[Path]:
    """A home of theirs on a disk; the engine lets them in."""
    folder = Path(tempfile.mkdtemp(prefix="rlx-user-", dir="/var/tmp"))
    os.chown(folder, _UID, _UID)
    engine.folder.chmod(0o755)
    socket = engine.folder / "docker.sock"
    socket.chmod(0o666)
    yield folder
    socket.chmod(0o660)
    engine.folder.chmod(0o700)
    shutil.rmtree(folder)
    shutil.rmtree(f"/tmp/tmux-{_UID}", ignore_errors=True)


def test_a_user_of_the_host_and_root_in_the_container(engine: Engine, user_home: Path, tmp_path: Path) -> None:
    engine.run_container("trainer", {user_home: "/home/them"})
    environment = {
        "HOME": str(user_home),
        "RLX_HOME": str(user_home / "home"),
        "RLX_CONFIG": str(user_home / "config"),
        "RLX_LEASES": str(user_home / "leases"),
        # Their docker configuration is their own.
        "DOCKER_CONFIG": str(user_home),
    }
    done = run_python(_SESSION, tmp_path, environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "roots": ["~/rlx", "/home/them/rlx", None],
        "warnings": [],
        "log": ["up", "0022", "0"],
        "made": "x\n",
        "env": False,
        "members": True,
        "held": [True],
        "left": [],
        "state": "stopped",
    }
