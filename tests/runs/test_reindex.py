"""`rlx hosts reindex` after the index was lost: what hosts show comes back, what they do not show is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import ExitCode
from rlx.model import RunState
from rlx.runs import RunRef
from tests.rig import Rig
from tests.runs.laptop import Laptop, toy
from tests.wording import settled


@pytest.fixture
def laptop(rig: Rig, tmp_path: Path) -> Laptop:
    """With a run on each of three hosts, of which the third has no entry."""
    laptop = Laptop(rig.client, tmp_path / "home")
    for host in ("h1", "h2"):
        assert laptop.rlx("hosts", "add", host, host).code == 0
    return laptop


def launched(laptop: Laptop, host: str) -> RunRef:
    (ref,) = laptop.launch(toy(laptop.site(host), "exit 0\n", arm=f"on-{host}"))
    assert laptop.ended(ref).state is RunState.FINISHED
    return ref


def test_hosts_show_their_runs_and_the_rest_is_named(rig: Rig, laptop: Laptop) -> None:
    first, second, third = (launched(laptop, host) for host in ("h1", "h2", "h3"))
    laptop.rows("--all")  # which also brings copies of all three here
    (laptop.home / "index.db").write_bytes(b"no database")
    for words in (["status", "-a"], ["status"], ["logs", "on-h1"], ["stop", "on-h2"], ["wait", first.run_id]):
        said = laptop.rlx(*words)
        # Not the code of a run that is not known.
        assert said.code == 1 and "index.db" in said.err and "rlx hosts reindex" in said.err, said
    rig.host("h2").stop_sshd()
    built = laptop.rlx("hosts", "reindex")
    assert built.code == ExitCode.UNREACHABLE, built
    assert built.out.splitlines() == ["local: 0 runs", "h1: 1 run"]
    assert "h2: " in built.err and "rlx status --host h2" in built.err
    assert first.run_id not in built.err
    assert all(ref.run_id in built.err for ref in (second, third))
    assert set(laptop.rows("--all")) == {"on-h1"}
    rig.host("h2").start_sshd()
    assert laptop.rlx("status", "--host", "h2").code == 0
    assert set(laptop.rows("--all")) == {"on-h1", "on-h2"}


def test_of_an_index_that_can_be_read_the_hosts_are_named_too(laptop: Laptop, wording: SnapshotAssertion) -> None:
    refs = [launched(laptop, host) for host in ("h1", "h3")]
    built = laptop.rlx("hosts", "reindex")
    assert built.code == 0 and built.out.splitlines() == ["local: 0 runs", "h1: 1 run", "h2: 0 runs"]
    (missing,) = [line for line in built.err.splitlines() if refs[1].run_id in line]
    assert "h3" in missing and settled(missing, {refs[1].run_id: "run"}) == wording
    document = json.loads(laptop.rlx("hosts", "reindex", "--json").out)
    assert Path(document["copy"]).is_file() and document["found"] == {"local": 0, "h1": 1, "h2": 0}
    assert (document["silent"], document["missing"]) == ({}, {})
    assert laptop.rlx("status", "--host", "h3").code == 0
    assert set(laptop.rows("--all")) == {"on-h1", "on-h3"}
