"""`rlx report --bundle` and `rlx judge`: an honest bundle agrees anywhere, and each edit of one is named."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import rlx as front_door
from rlx import __version__
from rlx.api.demo import SCENES
from rlx.cli.verify import judged_document
from rlx.model import RegisteredArm, Registration, to_jsonable
from rlx.runs.index.registrations import with_registrations
from tests.cli.support import rlx
from tests.compare.builders import METRIC
from tests.compare.run_dirs import CONTROL, FAST, SLOW, TREATMENT, arm_of, write_run
from tests.conftest import CASES, REPOSITORY
from tests.recorded import place_runs
from tests.registrations import ASKED
from tests.report.bundles import apart, edit_json, sum_up, together
from tests.wording import settled

pytestmark = pytest.mark.slow

PAIR = CASES / "pairs" / "probed"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands are typed in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    return folder


@pytest.fixture
def pair() -> dict[str, Path]:
    """The run directories of a recorded pair by arm, in the root of this test."""
    runs = place_runs(PAIR)
    return {arm: next(run for run in runs if f"-{arm}-" in run.name) for arm in ("baseline", "aqn")}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Go to a machine that has never seen a run; returns its home."""

    def go() -> Path:
        for name in ("RLX_HOME", "RLX_ROOT", "RLX_LEASES"):
            monkeypatch.setenv(name, str(tmp_path / "reviewer" / name))
        return tmp_path / "reviewer"

    return go


def bundled(*names: str, seeds: Sequence[int] = (), notes: int = 0) -> Path:
    """Write a bundle. `notes`: how many are expected; each difference of the bundle from the report is one more."""
    noted: list[str] = []
    path = front_door.bundle("evidence.tar.gz", *names, seeds=seeds, tell=noted.append)
    assert len(noted) == notes, noted
    return path


def judged(bundle: Path, agrees: bool = True) -> dict[str, Any]:
    """What `rlx judge --json` prints."""
    found = front_door.judge_bundle(bundle)
    assert found.agrees == agrees, found.differences
    answer: dict[str, Any] = json.loads(json.dumps(to_jsonable(judged_document(found))))
    return answer


def outcome_part(text: str) -> str:
    """Return what `rlx verify` says before what it computed."""
    return text.partition("\n\n")[0]


def test_an_honest_bundle_agrees_where_nothing_is_known(
    pair: dict[str, Path], elsewhere: Callable[[], Path], wording: SnapshotAssertion
) -> None:
    compared = json.loads(rlx("compare", "baseline", "aqn", "--json").stdout)
    done = rlx("report", "baseline", "aqn", "--bundle", "evidence.tar.gz")
    assert (done.stdout, done.stderr) == ("evidence.tar.gz\n", "")
    assert not Path("report.html").exists(), "the archive instead of the page"
    home, bundle = elsewhere(), Path("evidence.tar.gz")
    answer = json.loads(rlx("judge", str(bundle), "--json").stdout)
    assert answer == {"schema_version": 1, **judged(bundle)}
    assert (answer["differences"], answer["worded_otherwise"], answer["on_trust"]) == ([], [], [])
    assert {**answer["computed"]["comparison"], "schema_version": 1} == compared
    said = rlx("judge", str(bundle)).stdout
    assert settled(said, {answer["sha256"]: "sha256", __version__: "version"}) == wording
    for sentence in compared["contrasts"][0]["sentences"]:
        assert sentence in said
    assert not home.exists(), "nothing is written there"


def test_the_same_evidence_gives_the_same_bytes_without_times_and_owners(pair: dict[str, Path]) -> None:
    first = bundled().read_bytes()
    assert bundled().read_bytes() == first, "a bundle written before is replaced"
    with tarfile.open("evidence.tar.gz") as tar:
        members = tar.getmembers()
    assert {(each.mtime, each.uid, each.gid, each.uname, each.mode) for each in members} == {(0, 0, 0, "", 0o644)}
    assert [each.name for each in members] == sorted(each.name for each in members)


def test_page_and_bundle_at_once(pair: dict[str, Path]) -> None:
    done = rlx("report", "-o", "page.html", "--bundle", "evidence.tar.gz")
    assert (done.stdout, done.stderr) == ("page.html\nevidence.tar.gz\n", "")
    assert b"<html" in Path("page.html").read_bytes()


def test_the_list_of_digests_is_one_that_sha256sum_reads(pair: dict[str, Path], tmp_path: Path) -> None:
    folder = apart(bundled(), tmp_path / "open")
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"], cwd=folder, check=True)


def test_no_file_of_another_is_replaced(pair: dict[str, Path], wording: SnapshotAssertion) -> None:
    Path("evidence.tar.gz").write_text("years of work", encoding="utf-8")
    said = rlx("report", "--bundle", "evidence.tar.gz", code=1).stderr
    assert "evidence.tar.gz" in said and said == wording
    assert Path("evidence.tar.gz").read_text(encoding="utf-8") == "years of work"


def test_from_python(pair: dict[str, Path], tmp_path: Path) -> None:
    path = front_door.bundle(tmp_path / "evidence.tar.gz", "baseline", "aqn")
    found = front_door.judge_bundle(path)
    assert found.agrees
    assert [run.arm for run in found.runs] == ["baseline", "aqn"]


@pytest.mark.parametrize("scene", [scene.name for scene in SCENES])
def test_bundles_of_mishaps_agree_too(scene: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That runs are invalid or cut short is what their evidence shows, and what the bundle says."""
    rlx("demo", "--to", "shown")
    for name, place in (("RLX_HOME", "home"), ("RLX_ROOT", "root"), ("RLX_LEASES", "leases")):
        monkeypatch.setenv(name, str(Path("shown", place).absolute()))
    judged(bundled(scene))


def changed_line(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def worse_control(run: Path, other: Path) -> None:
    lines = (run / "attempts/1/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    last = json.loads(lines[-1])
    (metric,) = (key for key in last["data"] if key.startswith("val-core/"))
    last["data"][metric] -= 0.2
    (run / "attempts/1/metrics.jsonl").write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n", encoding="utf-8")


def better_answers(run: Path, other: Path) -> None:
    path = run / "attempts/1/validation/20.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("".join(json.dumps({**line, "score": 1.0, "acc": 1.0}) + "\n" for line in lines), encoding="utf-8")


def other_manifest(run: Path, other: Path) -> None:
    shutil.copy(other / "manifest.json", run / "manifest.json")


def no_more_noise_planned(run: Path, other: Path) -> None:
    edit_json(run / "manifest.json", lambda manifest: manifest["plan"]["expectations"].update(noise=None))


def another_user(run: Path, other: Path) -> None:
    edit_json(run / "manifest.json", lambda manifest: manifest["submitted_by"].update(user="somebody-else"))


def another_seed(run: Path, other: Path) -> None:
    edit_json(run / "manifest.json", lambda manifest: manifest["plan"].update(seed=7))


def failed(run: Path, other: Path) -> None:
    (run / "attempts/1/state/exit").write_text("1 leader 1700000000 100\n", encoding="utf-8")


def no_events(run: Path, other: Path) -> None:
    shutil.rmtree(run / "attempts/1/events")


def no_manifest(run: Path, other: Path) -> None:
    (run / "manifest.json").unlink()


EDITS = {
    "a changed metric": (worse_control, "baseline", "final.value"),
    "better answers": (better_answers, "aqn", "contrasts[0].sentences"),
    "an exchanged manifest": (other_manifest, "aqn", "sha256 of its manifest"),
    "another promise": (no_more_noise_planned, "aqn", "verdict.sentence"),
    "another user": (another_user, "aqn", "sha256 of its manifest"),
    "another seed": (another_seed, "aqn", "seed"),
    "another end": (failed, "aqn", "state"),
    "no events": (no_events, "aqn", "verdict.status"),
    "no manifest": (no_manifest, "baseline", "sha256 of its manifest"),
}


@pytest.mark.parametrize("careful", [False, True], ids=["hasty", "careful"])
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_named(name: str, careful: bool, pair: dict[str, Path], tmp_path: Path) -> None:
    """A careful forger writes the list of digests anew; what follows from the evidence still tells."""
    edit, arm, field = EDITS[name]
    folder = apart(bundled("baseline", "aqn"), tmp_path / "open")
    other = "aqn" if arm == "baseline" else "baseline"
    edit(folder / "runs" / pair[arm].name, folder / "runs" / pair[other].name)
    if careful:
        sum_up(folder)
    bundle = together(folder, tmp_path / "edited.tar.gz")
    found = front_door.judge_bundle(bundle).differences
    assert any(each.run_id in ("", pair[arm].name) and field in each.field for each in found), found
    assert any(each.field.startswith("sha256 of runs/") for each in found) != careful


def test_a_person_reads_who_claims_what(pair: dict[str, Path], tmp_path: Path) -> None:
    folder = apart(bundled("baseline", "aqn"), tmp_path / "open")
    worse_control(folder / "runs" / pair["baseline"].name, folder)
    sum_up(folder)
    said = rlx("judge", str(together(folder, tmp_path / "edited.tar.gz")), code=14).stdout
    assert re.search(rf"^  {pair['baseline'].name}: final\.value\n.*\b0\.97\n.*\b0\.77$", said, re.M)


CLAIMS: dict[str, Callable[[Any], Any]] = {
    "comparison.contrasts[0].sentences[0]": lambda claims: (claims["comparison"]["contrasts"][0]["sentences"], 0),
    "comparison.contrasts[0].p_value": lambda claims: (claims["comparison"]["contrasts"][0], "p_value"),
    "comparison.reportable": lambda claims: (claims["comparison"], "reportable"),
    "verdict.status": lambda claims: (claims["runs"][1]["verdict"], "status"),
    "sentence": lambda claims: (claims["runs"][0], "sentence"),
}


@pytest.mark.parametrize("field", CLAIMS)
def test_a_claim_that_does_not_follow_is_named(field: str, pair: dict[str, Path], tmp_path: Path) -> None:
    folder = apart(bundled("baseline", "aqn"), tmp_path / "open")

    def edit(document: Any) -> None:
        holder, key = CLAIMS[field](document["claims"])
        holder[key] = "AQN helps"

    edit_json(folder / "bundle.json", edit)
    sum_up(folder)
    (found,) = front_door.judge_bundle(together(folder, tmp_path / "edited.tar.gz")).differences
    assert (found.field, found.claimed) == (field, "AQN helps")
    assert found.computed != "AQN helps"


def test_words_of_another_version_are_no_accusation(
    pair: dict[str, Path], tmp_path: Path, wording: SnapshotAssertion
) -> None:
    folder = apart(bundled("baseline", "aqn"), tmp_path / "open")

    def reword(document: Any) -> None:
        document["rlx"] = "0.9.0"
        document["claims"]["comparison"]["contrasts"][0]["sentences"][1] = "worded otherwise"
        document["claims"]["comparison"]["of_later_versions"] = {"more": 1}
        document["runs"][0]["of_later_versions"] = 1

    edit_json(folder / "bundle.json", reword)
    sum_up(folder)
    bundle = together(folder, tmp_path / "later.tar.gz")
    answer = judged(bundle, agrees=False)
    assert (answer["differences"], len(answer["worded_otherwise"])) == ([], 2)
    said = rlx("judge", str(bundle), code=14).stdout
    assert "rlx 0.9.0" in said
    assert settled(outcome_part(said), {__version__: "version"}) == wording


def test_another_version_excuses_no_other_number(
    pair: dict[str, Path], tmp_path: Path, wording: SnapshotAssertion
) -> None:
    folder = apart(bundled("baseline", "aqn"), tmp_path / "open")

    def edit(document: Any) -> None:
        document["rlx"] = "0.9.0"
        document["claims"]["comparison"]["contrasts"][0]["p_value"] = 0.01

    edit_json(folder / "bundle.json", edit)
    sum_up(folder)
    bundle = together(folder, tmp_path / "later.tar.gz")
    assert [each["field"] for each in judged(bundle, agrees=False)["differences"]] == [
        "comparison.contrasts[0].p_value"
    ]
    said = rlx("judge", str(bundle), code=14).stdout
    assert settled(outcome_part(said), {__version__: "version"}) == wording


def test_a_later_format_is_not_guessed_at(pair: dict[str, Path], tmp_path: Path, wording: SnapshotAssertion) -> None:
    folder = apart(bundled(), tmp_path / "open")
    edit_json(folder / "bundle.json", lambda document: document.update(format=2, rlx="1.0.0"))
    said = rlx("judge", str(together(folder, tmp_path / "later.tar.gz")), code=1).stderr
    assert "rlx 1.0.0" in said
    assert settled(said, {str(tmp_path): "here", __version__: "version"}) == wording


def test_runs_that_left_little_behind(pair: dict[str, Path], elsewhere: Callable[[], Path]) -> None:
    for run in pair.values():
        for name in ("hydra", "validation"):
            shutil.rmtree(run / "attempts/1" / name)
        (run / "attempts/1/provenance.json").unlink()
    bundle = bundled("baseline", "aqn")
    elsewhere()
    judged(bundle)


def test_what_was_left_out_is_in_it(elsewhere: Callable[[], Path], tmp_path: Path) -> None:
    for minute in (1, 2):
        for arm in (CONTROL, TREATMENT):
            write_run(arm.plan(), arm.series, None, minute=minute)
    bundle = bundled("baseline", "fast", notes=1)
    home = elsewhere()
    answer = judged(bundle)
    left_out = answer["computed"]["left_out"]
    assert len(left_out) == 2, answer["computed"]
    assert not home.exists()
    folder = apart(bundle, tmp_path / "open")
    hidden = left_out[0]["run_id"]
    held = [path for path in (folder / "runs" / hidden).rglob("*") if path.is_file()]
    assert sorted(path.name for path in held) == ["exit", "manifest.json"], "what it was, and how it ended"

    def hide(document: Any) -> None:
        document["runs"] = [run for run in document["runs"] if run["run_id"] != hidden]

    edit_json(folder / "bundle.json", hide)
    shutil.rmtree(folder / "runs" / hidden)
    sum_up(folder)
    found = judged(together(folder, tmp_path / "edited.tar.gz"), agrees=False)["differences"]
    assert any(each["run_id"] == hidden for each in found)


@pytest.fixture
def asked() -> Registration:
    """An experiment of two seeds, of which another process knows since when."""
    arms = (RegisteredArm("baseline", (), "a", "e"), RegisteredArm("fast", ("train.lr",), "b", "e"))
    wanted = replace(ASKED, name="gsm8k", metric=METRIC, control="baseline", seeds=(1, 2), spare_seeds=(3,), arms=arms)
    (plan,) = with_registrations(Path(os.environ["RLX_HOME"]), [replace(CONTROL.plan(), registration=wanted)])
    assert plan.registration is not None
    return plan.registration


def write_registered(asked: Registration, *seeds: int) -> None:
    for seed, arm in ((seed, arm) for seed in seeds for arm in (CONTROL, TREATMENT)):
        write_run(replace(arm, seed=seed, registration=asked).plan(), arm.series, None)


def test_a_registered_experiment_comes_with_its_other_runs(
    asked: Registration, tmp_path: Path, elsewhere: Callable[[], Path]
) -> None:
    """An answer rests on all registered runs, also on those that this comparison is not about."""
    write_registered(asked, 1, 2)
    bundle = bundled("baseline", "fast", seeds=[1])
    elsewhere()
    computed = judged(bundle)["computed"]
    assert len(computed["left_out"]) == 2
    assert len(computed["comparison"]["registered"]["answers"]) == 1
    said = rlx("judge", str(bundle)).stdout
    assert f"{asked.registered} as {asked.short}: Does a larger rate help?\n" in said
    assert all(sentence in said for sentence in computed["comparison"]["contrasts"][0]["sentences"])
    folder = apart(bundle, tmp_path / "open")
    assert len(list(folder.glob("runs/*/attempts/1/metrics.jsonl"))) == 4
    edit_json(folder / "experiments" / f"{asked.digest}.json", lambda known: known.update(question="Does it harm?"))
    sum_up(folder)
    found = judged(together(folder, tmp_path / "edited.tar.gz"), agrees=False)["differences"]
    assert found[0]["field"] == f"digest of experiments/{asked.digest}.json"


def test_a_run_that_its_machine_ended_gives_way_to_a_spare_there_too(
    asked: Registration, elsewhere: Callable[[], Path]
) -> None:
    """What ended a run is read in its log, and decides which runs the answer rests on."""
    write_registered(asked, 1, 2, 3)
    (ended,) = Path(os.environ["RLX_ROOT"]).glob("runs/gsm8k-fast-s2-*")
    (ended / "attempts/1/metrics.jsonl").unlink()
    (ended / "attempts/1/state/exit").write_text("1 leader 1700000000 100\n", encoding="utf-8")
    (ended / "attempts/1/log").write_text("OSError: [Errno 28] No space left on device\n", encoding="utf-8")
    (ended / "latest").symlink_to("attempts/1")
    bundle = bundled("baseline", "fast", seeds=[1])
    elsewhere()
    computed = judged(bundle)["computed"]
    (spare,) = [run for run in computed["comparison"]["registered"]["runs"] if run["why"]]
    assert (spare["arm"], spare["seed"], spare["run_id"].startswith("gsm8k-fast-s3-")) == ("fast", 2, True)
    assert ended.name in "\n".join(computed["comparison"]["answer"])


def test_experiments_of_the_like_are_named_there_too(elsewhere: Callable[[], Path]) -> None:
    write_run(replace(TREATMENT.plan(), name="tried-before"), TREATMENT.series, None)
    for arm in (CONTROL, TREATMENT):
        write_run(arm.plan(), arm.series, None, minute=1)
    bundle = bundled("baseline", "fast", notes=1)
    elsewhere()
    (other,) = judged(bundle)["computed"]["comparison"]["others"]
    assert other["name"] == "tried-before"
    said = rlx("judge", str(bundle)).stdout
    assert re.search(r"^evidence\.tar\.gz: 2 runs of gsm8k, .*\b1\b", said, re.M)
    assert re.search(r"^  tried-before: 1 run of fast, ", said, re.M)


def test_the_other_nodes_of_a_run_are_in_it(pair: dict[str, Path], elsewhere: Callable[[], Path]) -> None:
    head = pair["aqn"]
    worker = head.with_name(f"{head.name}-node1")
    shutil.copytree(head, worker, symlinks=True)
    for name in ("log", "metrics.jsonl"):
        (worker / "attempts/1" / name).unlink()
    shutil.rmtree(worker / "attempts/1/validation")
    edit_json(worker / "manifest.json", lambda manifest: manifest.update(run_id=worker.name))
    cluster = {"node": 1, "nodes": 2, "head": "10.0.0.1"}
    edit_json(worker / "manifest.json", lambda manifest: manifest["plan"].update(cluster=cluster))
    bundle = bundled("baseline", "aqn")
    elsewhere()
    assert [run["node"] for run in judged(bundle)["runs"]] == [0, 0, 1]


def test_a_run_that_goes_on_is_taken_at_its_word(elsewhere: Callable[[], Path], wording: SnapshotAssertion) -> None:
    write_run(CONTROL.plan(), CONTROL.series, None)
    with subprocess.Popen(["sleep", "600"]) as supervisor:
        write_run(TREATMENT.plan(), TREATMENT.series, supervisor.pid)
        bundle = bundled()
        supervisor.kill()
    elsewhere()
    answer = judged(bundle)
    assert answer["computed"]["comparison"]["interim"] is True
    (line,) = answer["on_trust"]
    assert "gsm8k-fast-s1" in line and line == wording


def test_imported_logs(elsewhere: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, pair: dict[str, Path]) -> None:
    monkeypatch.setenv("RLX_ROOT", os.environ["RLX_ROOT"] + "-empty")
    for arm, run in pair.items():
        rlx("import", str(run / "attempts/1/log"), "--name", "old", "--arm", arm)
    bundle = bundled("baseline", "aqn")
    elsewhere()
    answer = judged(bundle)
    assert {run["state"] for run in answer["computed"]["runs"]} == {"finished"}


def test_a_secret_that_nobody_named_is_masked_in_what_is_packed_shown_and_exported(
    pair: dict[str, Path], tmp_path: Path, wording: SnapshotAssertion
) -> None:
    """Runs that were launched before it was refused have it in their manifests; programs print it."""
    run, env = pair["aqn"], {"http_proxy": "http://me:hunter2-hunter2@proxy:8080"}
    edit_json(run / "manifest.json", lambda manifest: manifest["plan"]["env"].update(env))
    edit_json(run / "manifest.json", lambda manifest: manifest["plan"]["recipe"]["env"].update(env))
    with (run / "attempts/1/log").open("a", encoding="utf-8") as log:
        log.write("cloning https://me:hunter2-hunter2@git.example/x\nit was hunter2-hunter2\n")
    said = rlx("report", "--bundle", "evidence.tar.gz").stderr
    masked = [line for line in said.splitlines() if line.startswith(f"runs/{run.name}/")]
    assert {line.partition(": ")[0].rpartition(f"{run.name}/")[2] for line in masked} == {
        "attempts/1/log",
        "manifest.json",
    }
    assert masked == wording
    folder = apart(Path("evidence.tar.gz"), tmp_path / "open")
    held = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert [name for name, content in held.items() if b"hunter2-hunter2" in content] == []
    assert b"cloning https://me:***************@git.example/x\n" in held[f"runs/{run.name}/attempts/1/log"]
    judged(Path("evidence.tar.gz"))
    rlx("report", "-o", "page.html")
    rlx("export", "--to", "tensorboard", "--out", "curves")
    written = [Path("page.html"), *(path for path in Path("curves").rglob("*") if path.is_file())]
    assert len(written) > 2
    assert [path for path in written if b"hunter2-hunter2" in path.read_bytes()] == []


def test_no_weights_no_environment_no_secret_no_link(
    pair: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    run = pair["aqn"]
    (tmp_path / "private").write_text("of this user alone", encoding="utf-8")
    (run / "checkpoints").mkdir()
    (run / "checkpoints/model.safetensors").write_text("weights", encoding="utf-8")
    for name in ("env", "launch.sh", "attempts/1/notes"):
        (run / name).write_text("export WANDB_API_KEY='a-secret-of-mine'\n", encoding="utf-8")
    (run / "attempts/1/events/aqn-linked.jsonl").symlink_to(tmp_path / "private")
    edit_json(run / "manifest.json", lambda manifest: manifest["plan"].update(secrets=["WANDB_API_KEY"]))
    monkeypatch.setenv("WANDB_API_KEY", "a-secret-of-mine")
    with (run / "attempts/1/log").open("a", encoding="utf-8") as log:
        log.write("logged in with a-secret-of-mine\n")
    said = rlx("report", "--bundle", "evidence.tar.gz").stderr
    assert "WANDB_API_KEY" in said and "aqn-linked.jsonl" in said
    assert settled(said, {os.environ["RLX_ROOT"]: "root"}) == wording
    folder = apart(Path("evidence.tar.gz"), tmp_path / "open")
    held = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert not [name for name in held if name.endswith(("env", "launch.sh", "notes", "safetensors", "linked.jsonl"))]
    assert not [name for name, content in held.items() if b"a-secret-of-mine" in content or b"of this user" in content]
    assert b"logged in with ****************\n" in held[f"runs/{run.name}/attempts/1/log"]
    judged(Path("evidence.tar.gz"))


def test_the_answer_to_a_registered_question_is_computed_again(elsewhere: Callable[[], Path], tmp_path: Path) -> None:
    for builder in (*arm_of(CONTROL, SLOW), *arm_of(TREATMENT, FAST)):
        write_run(builder.plan(), builder.series, None)
    (again,) = arm_of(TREATMENT, (0.9,), first=2)
    write_run(again.plan(), again.series, None, minute=1)
    bundle = bundled("gsm8k-baseline-s1", "gsm8k-fast-s1")
    elsewhere()
    computed = judged(bundle)["computed"]["comparison"]
    assert [each["answer"]["kind"] for each in computed["registered"]["answers"]] == ["yes"]
    assert [run["run_id"] for run in computed["registered"]["left_out"]] == ["gsm8k-fast-s2-20261120-120100-abcd"]
    folder = apart(bundle, tmp_path / "open")

    def deny(document: Any) -> None:
        document["claims"]["comparison"]["registered"]["answers"][0]["answer"]["kind"] = "no"

    edit_json(folder / "bundle.json", deny)
    answer = judged(together(folder, tmp_path / "denied.tar.gz"), agrees=False)
    assert any(each["field"].endswith("registered.answers[0].answer.kind") for each in answer["differences"])
