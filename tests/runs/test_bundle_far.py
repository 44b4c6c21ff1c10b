"""A bundle of runs on a host behind a real sshd: it has what was copied of them, and needs no host ever after."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.support import rlx
from tests.loopback import Loopback, loopback  # noqa: F401 - the fixture
from tests.report.bundles import apart
from tests.runs.toys import ended, start, toy_plan

STEPS = r"""
for step in 1 2 3; do
    seq 2000 | sed 's/^/chatter of a library /'
    echo "(TaskRunner pid=7) step:$step - timing_s/step:0.5 - val-core/toy/acc/mean@1:0.5"
    echo "{\"step\": $step, \"data\": {\"timing_s/step\": 0.5, \"val-core/toy/acc/mean@1\": 0.5}}" \
        >> "$RLX_ATTEMPT_DIR/metrics.jsonl"
done
for item in 1 2 3 4; do
    echo "{\"input\": \"q$item\", \"output\": \"a\", \"score\": 1.0, \"step\": 3, \"acc\": $((item % 2))}"
done >"$RLX_ATTEMPT_DIR/validation/3.jsonl"
"""


@pytest.mark.parametrize("reachable", [True, False], ids=["there", "gone"])
def test_it_agrees_where_no_host_is_known(
    reachable: bool,
    loopback: Loopback,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    plans = [toy_plan(STEPS, arm=arm) for arm in ("baseline", "aqn")]
    refs = start(*(replace(plan, site=replace(plan.site, place=loopback.place)) for plan in plans))
    for ref in refs:
        ended(ref)
    rlx("compare", "baseline", "aqn", code=None)
    if not reachable:
        loopback.stop()
        loopback.cut()
    said = rlx("report", "baseline", "aqn", "--bundle", "evidence.tar.gz", "--allow-unverified").stderr
    unheard = [ref.arm for ref in refs if re.search(rf"{ref.run_id}: .*\b\d{{4}}-\d\d-\d\d ", said)]
    assert unheard == ([] if reachable else ["baseline", "aqn"]), said
    loopback.stop()
    loopback.cut()
    for name in ("RLX_HOME", "RLX_ROOT", "RLX_LEASES"):
        monkeypatch.setenv(name, str(tmp_path / "reviewer" / name))
    answer = json.loads(rlx("judge", "evidence.tar.gz", "--json").stdout)
    assert (answer["agrees"], answer["on_trust"]) == (True, [])
    folder = apart(tmp_path / "evidence.tar.gz", tmp_path / "open") / "runs" / refs[0].run_id / "attempts/1"
    assert len((folder / "validation/3.jsonl").read_text(encoding="utf-8").splitlines()) == 4
    assert '"input"' in (folder / "validation/3.jsonl").read_text(encoding="utf-8"), (
        "the answers, and not how many there are"
    )
    assert "chatter" not in (folder / "log").read_text(encoding="utf-8")


def test_of_a_run_that_failed_the_whole_log_is_fetched(
    loopback: Loopback,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why it ended decides whether a registered run keeps its place, and stands in lines that no verdict needs."""
    monkeypatch.chdir(tmp_path)
    plan = toy_plan(f"{STEPS}\necho 'OSError: [Errno 28] No space left on device'\nexit 1", arm="aqn")
    (ref,) = start(replace(plan, site=replace(plan.site, place=loopback.place)))
    ended(ref)
    rlx("report", "aqn", "--bundle", "evidence.tar.gz", code=14)
    log = apart(tmp_path / "evidence.tar.gz", tmp_path / "open") / "runs" / ref.run_id / "attempts/1/log"
    assert log.read_bytes() == (ref.run_dir / "attempts/1/log").read_bytes()
    loopback.stop()
    loopback.cut()
    rlx("report", "aqn", "--bundle", "silent.tar.gz", code=14)
    for bundle in ("evidence.tar.gz", "silent.tar.gz"):
        (run,) = json.loads(rlx("judge", bundle, "--json").stdout)["runs"]
        assert (run["as_of"] is None) == (bundle == "evidence.tar.gz")
