"""`rlx compare` answers the registered question first, from all of its runs or not at all; the rest is exploratory."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import scipy
from syrupy.assertion import SnapshotAssertion

import rlx as front_door
from rlx.api.judged_comparison import Compared
from rlx.compare.sentences import comparison_document
from rlx.model import to_jsonable
from rlx.model.registration import MEAN_OF_LAST, RegisteredArm
from tests.cli.support import rlx
from tests.compare.builders import METRIC
from tests.compare.forms import forms_of, timeless
from tests.compare.run_dirs import ASKED, CONTROL, FAST, SILENT, SLOW, TREATMENT, arm_of

RunsOf = Callable[..., None]
NAMES = ("baseline", "fast")


def compared_as(*names: str, code: int = 0, **options: Any) -> Compared:
    """Compare as the command does, and check the exit code that it would have."""
    compared = front_door.compare(*names, **options)
    assert compared.outcome() == code
    return compared


def answer(*names: str, code: int = 0, **options: Any) -> dict[str, Any]:
    """Return the comparison as JSON."""
    found: dict[str, Any] = to_jsonable(comparison_document(compared_as(*names, code=code, **options).comparison))
    return found


def answers(*words: str) -> list[dict[str, Any]]:
    """The arithmetic of each answer, by metric and treatment."""
    return [each["answer"] for each in answer(*words)["registered"]["answers"]]


def shown(*names: str, code: int, **options: Any) -> list[str]:
    """Return every form for people: terminal, Markdown, CSV with its notes, and the page."""
    return forms_of(compared_as(*names, code=code, **options), Path("page.html"))


def answer_part(text: str) -> str:
    """Return what the terminal shows below the registered question: the answer, and what it lacks."""
    (part,) = [part for part in text.split("\n\n") if part.startswith(f"registered {ASKED.registered}")]
    return timeless(part.partition("\n")[2])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_answer_comes_first_once_all_registered_runs_are_in(runs_of: RunsOf, wording: SnapshotAssertion) -> None:
    runs_of(*arm_of(CONTROL, SLOW), *arm_of(TREATMENT, FAST))
    found = answer(*NAMES)
    (each,) = [one["answer"] for one in found["registered"]["answers"]]
    by_hand = scipy.stats.ttest_ind(FAST, SLOW, equal_var=False)
    assert each["kind"] == "yes"
    assert each["estimate"] == pytest.approx(10.333, abs=1e-3)
    assert each["p_value"] == pytest.approx(by_hand.pvalue)
    assert (each["low"], each["high"]) == pytest.approx([100 * end for end in by_hand.confidence_interval()])
    assert found["claim"] == wording
    text = rlx("compare", *NAMES).stdout
    assert text.index("Does a larger rate help?") < text.index(found["contrasts"][0]["sentences"][0])
    assert text.replace(ASKED.short, "<experiment>") == wording
    for form in shown(*NAMES, code=0):
        assert answer_part(text).splitlines()[0].strip() in form and "Does a larger rate help?" in form


@pytest.mark.long
@pytest.mark.parametrize("missing", ["not launched", "running"])
def test_before_the_last_run_is_in_nothing_is_tested(runs_of: RunsOf, missing: str, wording: SnapshotAssertion) -> None:
    runs_of(*arm_of(CONTROL, SLOW), *arm_of(TREATMENT, FAST[:2]))
    if missing == "running":
        runs_of(*arm_of(TREATMENT, FAST[2:], first=3), finished=False)
    for names, options in ((NAMES, {}), (NAMES, {"seeds": (1, 2)}), (("baseline-s1", "fast-s1"), {})):
        found = answer(*names, code=11, **options)
        assert found["registered"]["answers"] == found["registered"]["exploratory"] == []
        assert [each["test"] for each in found["contrasts"]] == [None]
        assert "5 of 6" in found["claim"] and found["claim"] == wording
        (open_run,) = [run for run in found["registered"]["runs"] if run["lacks"]]
        assert (open_run["arm"], open_run["seed"], open_run["is_open"]) == ("fast", 3, True)
        for form in shown(*names, code=11, **options):
            assert "95 %" not in form and "p = " not in form
            assert open_run["lacks"] in form
        assert open_run["lacks"] == wording
    values = rlx("compare", *NAMES, "--seed", "1", "2", code=11).stdout
    assert "RLX911" not in values, "where nothing is tested, no test errs"
    assert "0.7150 ± 0.0212" in values, "values are shown"


def test_a_registered_run_that_is_invalid_is_not_dropped(runs_of: RunsOf, wording: SnapshotAssertion) -> None:
    asked = replace(ASKED, arms=(ASKED.arms[0], RegisteredArm("aqn", ("aqn.stages",), "1", "e")))
    sound = replace(SILENT, noise=None)
    runs_of(
        *arm_of(CONTROL, SLOW, asked),
        *arm_of(sound, FAST[:2], asked),
        *arm_of(SILENT, FAST[2:], asked, first=3),
    )
    found = answer("baseline", "aqn", code=14)
    assert found["registered"]["answers"] == []
    assert [each["answer"]["kind"] for each in found["registered"]["exploratory"]] == ["cannot_tell"]
    assert found["claim"] == wording
    said = rlx("compare", "baseline", "aqn", code=14).stdout
    assert answer_part(said) == wording
    without = answer("baseline", "aqn", code=14, seeds=(1, 2))
    assert without["claim"] == found["claim"], "leaving the run out by hand changes no answer"


@pytest.mark.long
def test_removing_a_run_changes_no_answer_and_deleting_one_ends_it(runs_of: RunsOf, wording: SnapshotAssertion) -> None:
    runs_of(*arm_of(CONTROL, SLOW), *arm_of(TREATMENT, FAST))
    before = answers(*NAMES)
    (worst,) = Path(os.environ["RLX_ROOT"]).glob("runs/gsm8k-fast-s2-*")
    front_door.remove(worst.name, reason="looked bad")
    found = answer(*NAMES)
    assert [each["answer"] for each in found["registered"]["answers"]] == before
    (removed,) = found["left_out"]
    assert [removed["by"], timeless(removed["why"])] == wording
    for form in shown(*NAMES, code=0):
        assert f"{worst.name} (valid)" in form.replace("\\", "")
    (listed,) = front_door.experiments("gsm8k")
    assert [run.ref.run_id for slot in listed.slots for run in slot.runs if run.removed] == [worst.name]
    assert f"{worst.name} (valid)" in rlx("experiments", "gsm8k").stdout
    kept = front_door.prune(what=["runs"], keep=0).found
    assert not kept.items and len(kept.kept) == 6
    assert {each.why for each in kept.kept} == wording
    front_door.prune(worst.name, what=["runs"])
    found = answer(*NAMES, code=14)
    assert found["registered"]["answers"] == []
    assert [(run["arm"], run["seed"]) for run in found["registered"]["runs"] if run["lacks"]] == [("fast", 2)]
    assert timeless(found["claim"]) == wording


def test_an_answer_that_can_no_longer_be_given(runs_of: RunsOf, wording: SnapshotAssertion) -> None:
    runs_of(*arm_of(CONTROL, SLOW), *arm_of(TREATMENT, FAST[:2]))
    (ended,) = Path(os.environ["RLX_ROOT"]).glob("runs/gsm8k-fast-s2-*")
    (ended / "attempts/1/state/exit").write_text("1 leader 1795000000 100\n", encoding="utf-8")
    found = answer(*NAMES, code=14)["registered"]
    lacking = {(run["arm"], run["seed"]): run["is_open"] for run in found["runs"] if run["lacks"]}
    assert lacking == {("fast", 2): False, ("fast", 3): True}
    assert answer_part(rlx("compare", *NAMES, code=14).stdout) == wording


def test_what_was_launched_beyond_the_registration_is_in_no_answer(runs_of: RunsOf, wording: SnapshotAssertion) -> None:
    runs_of(*arm_of(CONTROL, SLOW), *arm_of(TREATMENT, FAST))
    runs_of(*arm_of(CONTROL, (0.9,), first=9), *arm_of(TREATMENT, (0.2,), first=9), minute=1)
    runs_of(*arm_of(TREATMENT, (0.3,), first=2), minute=2)
    found = answer(*NAMES)
    assert found["registered"]["answers"][0]["answer"]["estimate"] == pytest.approx(10.333, abs=1e-3)
    # The names mean the newest launch, which the answer is not about.
    left_out = {(run["arm"], run["seed"]): run for run in found["registered"]["left_out"]}
    assert left_out.keys() == {("baseline", 9), ("fast", 9), ("fast", 2)}
    assert {f"seed {seed} of {arm}": [run["by"], run["why"]] for (arm, seed), run in left_out.items()} == wording
    for form in shown(*NAMES, code=0):
        assert all(run["why"] in form for run in left_out.values())


@pytest.mark.long
@pytest.mark.parametrize("is_launched", [False, True])
def test_a_spare_takes_the_place_of_a_run_that_its_machine_ended(
    runs_of: RunsOf, is_launched: bool, wording: SnapshotAssertion
) -> None:
    asked = replace(ASKED, spare_seeds=(4,))
    runs_of(*arm_of(CONTROL, SLOW, asked), *arm_of(TREATMENT, FAST[:2], asked))
    runs_of(*arm_of(TREATMENT, FAST[2:], asked, first=3), finished=False, minute=1)
    (lost,) = Path(os.environ["RLX_ROOT"]).glob("runs/gsm8k-fast-s3-*")
    (lost / "attempts/1/state/supervisor").write_text("1 2 of-a-boot-long-ago\n", encoding="utf-8")
    if not is_launched:
        (waiting,) = [run for run in answer(*NAMES, code=11)["registered"]["runs"] if run["lacks"]]
        assert (waiting["arm"], waiting["seed"], waiting["is_open"]) == ("fast", 3, True)
        assert lost.name in waiting["why"]
        assert [waiting["lacks"], waiting["why"]] == wording
        return
    runs_of(*arm_of(TREATMENT, (0.72,), asked, first=4), minute=2)
    (each,) = answers(*NAMES)
    assert each["estimate"] == pytest.approx(100 * (0.70 + 0.73 + 0.72 - sum(SLOW)) / 3)
    said = answer_part(rlx("compare", *NAMES).stdout)
    assert lost.name in said and said == wording


def test_the_answer_is_from_all_registered_runs_whichever_are_named(runs_of: RunsOf) -> None:
    runs_of(*arm_of(CONTROL, SLOW[:2]), *arm_of(TREATMENT, FAST[:2]))
    runs_of(*arm_of(CONTROL, SLOW[2:], first=3), *arm_of(TREATMENT, FAST[2:], first=3), minute=1)
    (each,) = answers(*NAMES)
    assert (each["control_runs"], each["treatment_runs"]) == (3, 3)
    assert len(answer(*NAMES)["control"]["runs"]) == 1, "the newest launch is what a name means"
    assert answers("fast-s3", "baseline-s3") == [each], "nor which is called the control"


@pytest.mark.parametrize(
    ("test", "margin", "finals", "kind"),
    [
        ("superiority", None, (0.50, 0.53, 0.51), "no"),
        ("superiority", None, (0.58, 0.66, 0.61), "cannot_tell"),
        ("non-inferiority", 5.0, (0.60, 0.62, 0.61), "yes"),
        ("non-inferiority", 2.0, (0.50, 0.53, 0.51), "no"),
        ("equivalence", 5.0, (0.60, 0.62, 0.61), "equivalent"),
        ("equivalence", 2.0, FAST, "no"),
        ("equivalence", 0.5, SLOW, "cannot_tell"),
    ],
)
def test_each_question_in_one_plain_sentence(
    runs_of: RunsOf, test: str, margin: float | None, finals: Sequence[float], kind: str, wording: SnapshotAssertion
) -> None:
    asked = replace(ASKED, test=test, margin=margin)
    runs_of(*arm_of(CONTROL, SLOW, asked), *arm_of(TREATMENT, finals, asked))
    found = answer(*NAMES)
    assert found["registered"]["answers"][0]["answer"]["kind"] == kind
    assert found["claim"] == wording
    assert round(found["registered"]["answers"][0]["answer"]["level"], 2) == (0.95 if test == "superiority" else 0.9)


def test_several_treatments_share_the_error_rate_as_registered(runs_of: RunsOf) -> None:
    faster = replace(TREATMENT, arm="faster", recipe={"train": {"lr": 4e-6}})
    asked = replace(ASKED, arms=(*ASKED.arms, RegisteredArm("faster", ("train.lr",), "2", "e")))
    runs_of(
        *arm_of(CONTROL, SLOW, asked),
        *arm_of(TREATMENT, FAST, asked),
        *arm_of(faster, SLOW, asked),
    )
    found = answers(*NAMES)
    assert [each["kind"] for each in found] == ["yes", "cannot_tell"], "of both, though one was named"
    assert all("Dunnett" in each["method"] for each in found)


def test_several_benchmarks_are_one_family(runs_of: RunsOf, wording: SnapshotAssertion) -> None:
    other = "val-core/math/acc/mean@1"
    asked = replace(ASKED, also=(other,))
    for control, treatment in zip(arm_of(CONTROL, SLOW, asked), arm_of(TREATMENT, FAST, asked), strict=True):
        runs_of(
            replace(control, more_metrics={other: round(0.3 + control.seed / 100, 2)}),
            replace(treatment, more_metrics={other: round(0.34 - treatment.seed / 100, 2)}),
        )
    found = answer(*NAMES)
    first, second = found["registered"]["answers"]
    assert [each["metric"] for each in (first, second)] == [METRIC, other]
    by_hand = scipy.stats.ttest_ind(FAST, SLOW, equal_var=False).pvalue
    assert first["answer"]["p_value"] == pytest.approx(2 * by_hand), "Holm: the smaller of two counts twice"
    assert [each["answer"]["kind"] for each in (first, second)] == ["yes", "cannot_tell"]
    assert METRIC in found["claim"] and other in found["claim"]
    assert found["claim"] == wording


def test_another_metric_is_exploratory_beside_the_answer(runs_of: RunsOf) -> None:
    runs_of(*arm_of(CONTROL, SLOW), *arm_of(TREATMENT, FAST))
    found = answer(*NAMES, metric="timing_s/step")
    assert found["metric"] == "timing_s/step" and found["registered"]["answers"][0]["answer"]["kind"] == "yes"
    assert found["registered"]["registration"]["metric"] == METRIC


def test_the_value_is_the_one_that_was_registered(runs_of: RunsOf) -> None:
    asked = replace(ASKED, at=MEAN_OF_LAST, validations=2)
    runs_of(*arm_of(CONTROL, SLOW, asked), *arm_of(TREATMENT, FAST, asked))
    found = answer(*NAMES)["registered"]
    assert found["answers"][0]["answer"]["estimate"] == pytest.approx(10.333 / 2, abs=1e-3)
    assert {run["seed"]: run["values"][METRIC] for run in found["runs"] if run["arm"] == "fast"} == pytest.approx(
        {seed: (0.5 + final) / 2 for seed, final in zip((1, 2, 3), FAST, strict=True)}
    )


def test_arms_that_cannot_be_compared_answer_nothing(runs_of: RunsOf, wording: SnapshotAssertion) -> None:
    other = replace(TREATMENT, recipe={"train": {"lr": 2e-6}, "data": {"max_response_tokens": 512}})
    runs_of(*arm_of(CONTROL, SLOW), *arm_of(other, FAST))
    found = answer(*NAMES, code=14)["registered"]
    assert found["answers"] == found["exploratory"] == [] and found["objection"]
    assert found["objection"] in rlx("compare", *NAMES, code=14).stdout
    assert found["objection"] == wording


def test_runs_of_two_experiments_answer_neither(runs_of: RunsOf, wording: SnapshotAssertion) -> None:
    other = replace(ASKED, question="Does it?")
    runs_of(*arm_of(CONTROL, SLOW, other), *arm_of(TREATMENT, FAST))
    found = rlx("compare", *NAMES, "--json", code=None)
    assert json.loads(found.stdout)["registered"] is None
    assert found.stderr == wording
    assert json.loads(found.stdout)["contrasts"][0]["test"] is None, "both of which miss runs"


@pytest.mark.long
def test_a_report_begins_with_the_answer(runs_of: RunsOf) -> None:
    runs_of(*arm_of(CONTROL, SLOW), *arm_of(TREATMENT, FAST))
    rlx("report", "-o", "report.html")
    page = Path("report.html").read_text(encoding="utf-8")
    assert answer(*NAMES)["claim"] in page
    assert page.index("Does a larger rate help?") < page.index('id="curves"')


def test_a_registered_run_whose_records_are_gone_keeps_its_place(runs_of: RunsOf, wording: SnapshotAssertion) -> None:
    runs_of(*arm_of(CONTROL, SLOW), *arm_of(TREATMENT, FAST))
    assert answer(*NAMES)["registered"]["answers"]
    (gone,) = Path(os.environ["RLX_ROOT"]).glob("runs/gsm8k-fast-s3-*")
    shutil.rmtree(gone)
    (without,) = [run for run in answer(*NAMES, code=14, seeds=(1, 2))["registered"]["runs"] if run["lacks"]]
    assert (without["arm"], without["seed"], without["is_open"]) == ("fast", 3, False)
    assert without["lacks"] == wording


@pytest.mark.parametrize("day", ["2030", "2020"])
def test_what_is_registered_after_the_fact_is_exploratory(
    runs_of: RunsOf, day: str, wording: SnapshotAssertion
) -> None:
    runs_of(*(replace(run, registration=None) for run in (*arm_of(CONTROL, SLOW), *arm_of(TREATMENT, FAST))))
    asked = replace(ASKED, registered=f"{day}-01-01T00:00:00Z")
    folder = Path(os.environ["RLX_HOME"]) / "experiments"
    folder.mkdir(parents=True)
    (folder / f"{asked.digest}.json").write_text(json.dumps(to_jsonable(asked)), encoding="utf-8")
    done = rlx("compare", *NAMES)
    assert f"{day}-01-01T00:00:00Z" in done.stderr
    assert done.stderr.replace(asked.short, "<experiment>") == wording
    assert done.stdout == wording
