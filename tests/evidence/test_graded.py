"""What the kept answers of validations show of their grading: edits that must be caught, and runs left alone."""

from __future__ import annotations

import hashlib
import json
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.evidence import Evidence, judge, read_evidence
from rlx.evidence.cache.evidence_cache import keep, kept
from rlx.evidence.checks import validation_data, validation_scores
from rlx.evidence.checks.check_input import Basis, CheckInput
from rlx.evidence.reading.validation_outputs import ValidationParser
from rlx.evidence.traces import Setup
from rlx.evidence.verdict import CheckFinding, VerdictStatus
from rlx.model import Expectations, RunState, Severity, WeightExpectation
from rlx.payload.replayed_graders import BOXED, EXACT, GSM8K, REPLAYS, grader_of_file
from tests.conftest import CASES
from tests.evidence.test_recorded_weights import engine, trainer

Rows = dict[int, list[dict[str, Any]]]
Edit = Callable[[Rows], None]

RECORDED = next((CASES / "pairs/probed").glob("tiny-cpu-baseline-*")) / "attempts/1"
RECIPES = Path(__file__).parents[2] / "recipes"
TINY = hashlib.sha256((RECIPES / "tiny-cpu/reward.py").read_bytes()).hexdigest()
FILE = Setup(
    {"reward": {"path": "reward.py", "function": "compute_score", "kwargs": {}}}, sent={"payload/reward.py": TINY}
)
OWN = replace(FILE, sent={"payload/reward.py": "0" * 64})
EXPECTED = Expectations(20, (0, 5, 10, 15, 20), True, 100, 1, "auto", None, True)


def recorded() -> Rows:
    paths = (RECORDED / "validation").glob("*.jsonl")
    return {int(path.stem): [json.loads(line) for line in path.read_text("utf-8").splitlines()] for path in paths}


def charges(folder: Path, rows: Rows, setup: Setup = FILE, **changes: Any) -> list[CheckFinding]:
    (folder / "validation").mkdir(exist_ok=True)
    (folder / "metrics.jsonl").write_bytes((RECORDED / "metrics.jsonl").read_bytes())
    for step, lines in rows.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"validation/{step}.jsonl").write_text(text, encoding="utf-8")
    evidence = replace(read_evidence([folder]), backend="verl")
    return list(validation_scores.check(CheckInput(evidence, EXPECTED, RunState.FINISHED, setup=setup, **changes)))


def ids(found: list[CheckFinding], status: VerdictStatus | None = None) -> set[str]:
    return {charge.finding.id for charge in found if status is None or charge.status is status}


def scored(row: dict[str, Any], score: float) -> None:
    row.update(score=score, acc=score, reward=score)


def is_right(row: Mapping[str, Any]) -> bool:
    return bool(row["output"] == row["gts"])


def extractor_broken(rows: Rows) -> None:
    for row in (row for lines in rows.values() for row in lines[10:]):
        scored(row, 0.0)


def extractor_broken_at_the_last_step(rows: Rows) -> None:
    for row in [row for row in rows[20] if is_right(row)][:3]:
        scored(row, 0.0)


def empty_answers_right(rows: Rows) -> None:
    for row in rows[20][:5]:
        row["output"] = ""


def one_text_for_all(rows: Rows) -> None:
    for row in rows[20]:
        row["output"] = "the answer"
        scored(row, 1.0)


def wrong_answers_right_late(rows: Rows) -> None:
    for row in rows[20]:
        scored(row, 1.0)


def accuracy_of_the_form_alone(rows: Rows) -> None:
    for row in (row for lines in rows.values() for row in lines):
        row["acc"] = 1.0


def graded_anew(rows: Rows) -> None:
    rows[5] = [dict(row, uid=str(uuid.uuid4()), step=5) for row in rows[0]]
    for row in [row for row in rows[5] if not is_right(row)][:3]:
        scored(row, 1.0)


REPLAYED = [
    (extractor_broken, "RLX780"),
    (extractor_broken_at_the_last_step, "RLX780"),
    (empty_answers_right, "RLX781"),
    (one_text_for_all, "RLX781"),
    (wrong_answers_right_late, "RLX781"),
    (accuracy_of_the_form_alone, "RLX781"),
    (graded_anew, "RLX782"),
]


@pytest.mark.parametrize(("edit", "id"), REPLAYED, ids=[edit.__name__ for edit, _ in REPLAYED])
def test_a_replayed_grader_that_contradicts_its_scores_is_invalid(tmp_path: Path, edit: Edit, id: str) -> None:
    rows = recorded()
    edit(rows)
    assert id in ids(charges(tmp_path, rows), VerdictStatus.INVALID)


@pytest.mark.parametrize("edit", [edit for edit, _ in REPLAYED], ids=[edit.__name__ for edit, _ in REPLAYED])
def test_another_grader_is_never_an_error(tmp_path: Path, edit: Edit) -> None:
    rows = recorded()
    edit(rows)
    for setup in (OWN, Setup(), Setup({"reward": "gsm8k"})):
        assert {charge.status for charge in charges(tmp_path, rows, setup)} <= {VerdictStatus.VALID}
    assert {charge.status for charge in charges(tmp_path, rows, Setup(), basis=Basis.LOG)} <= {VerdictStatus.VALID}


@pytest.mark.parametrize(
    ("edit", "id"), [(extractor_broken, "RLX780"), (one_text_for_all, "RLX781"), (wrong_answers_right_late, "RLX782")]
)
def test_another_grader_is_warned_of_with_a_count_and_an_example(tmp_path: Path, edit: Edit, id: str) -> None:
    rows = recorded()
    if edit is wrong_answers_right_late:
        rows[5] = [dict(row, uid="", step=5) for row in rows[0]]
        for row in rows[5]:
            scored(row, 1.0)
    else:
        edit(rows)
    (found,) = [each.finding for each in charges(tmp_path, rows, OWN) if each.finding.id == id]
    assert found.severity is Severity.WARNING and any(each.isdigit() for each in found.message)
    assert "=?" in found.message or "the answer" in found.message


def lists_and_nulls(rows: Rows) -> None:
    for lines in rows.values():
        for row in lines:
            number = int(row["input"][5]) % 3
            row["gts"] = ([row["gts"]], None, row["gts"])[number]


def partial_credit(rows: Rows) -> None:
    for row in (row for lines in rows.values() for row in lines):
        scored(row, 0.5 if is_right(row) else 0.1)


def two_answers_graded_wrong(rows: Rows) -> None:
    for step in (0, 5, 10, 15):
        del rows[step]
    for row in [row for row in rows[20] if is_right(row)][:2]:
        scored(row, 0.0)


def score_with_a_penalty_for_length(rows: Rows) -> None:
    for row in (row for lines in rows.values() for row in lines):
        row["score"] = row["reward"] = row["acc"] - 1.0


def several_sampled_answers(rows: Rows) -> None:
    random_ = random.Random(1)
    for step, lines in rows.items():
        sampled = []
        for line in lines:
            id_ = uuid.UUID(int=random_.getrandbits(128), version=4)
            for session in range(4):
                row = dict(line, uid=f"{id_}_{session}_0", output=line["gts"] if session % 2 else f"0{session}{step}")
                scored(row, float(is_right(row)))
                sampled.append(row)
        rows[step] = sampled


def turns_of_conversations(rows: Rows) -> None:
    for step, lines in rows.items():
        lines[0]["output"] = f"not at step {step}"
        ask = [dict(line, acc=1.0, score=1.0) for line in lines]
        rows[step] = [dict(each, uid=f"{each['uid'][:-1]}{turn}") for turn in (0, 1) for each in ask]


@pytest.mark.parametrize(
    "edit",
    [
        lambda rows: None,
        lists_and_nulls,
        partial_credit,
        two_answers_graded_wrong,
        score_with_a_penalty_for_length,
        several_sampled_answers,
        turns_of_conversations,
    ],
)
def test_what_contradicts_no_grader_is_left_alone(tmp_path: Path, edit: Edit) -> None:
    rows = recorded()
    edit(rows)
    assert charges(tmp_path, rows) == []


def test_a_bare_number_that_is_never_right_may_want_a_form(tmp_path: Path) -> None:
    rows = recorded()
    for row in (row for lines in rows.values() for row in lines):
        scored(row, 0.0)
    (found,) = charges(tmp_path, rows, OWN)
    assert (found.finding.id, found.finding.severity) == ("RLX780", Severity.NOTE)


def test_one_answer_to_truths_that_a_grader_may_call_equal(tmp_path: Path) -> None:
    rows = {20: [row for row in recorded()[20] if is_right(row)][:4]}
    for row, truth in zip(rows[20], ("7", "7.0", "$7$", "\\frac{14}{2}"), strict=True):
        row.update(output="seven", gts=truth)
    assert "RLX781" not in ids(charges(tmp_path, rows, OWN))
    for row, truth in zip(rows[20], ("7", "8", '["7", "8"]', "9 apples"), strict=True):
        row.update(gts=truth)
    assert "RLX781" in ids(charges(tmp_path, rows, OWN))


def test_answers_of_all_validations_that_stay_the_same(tmp_path: Path) -> None:
    rows = recorded()
    for step in rows:
        rows[step] = [dict(row, step=step, uid=str(uuid.uuid4())) for row in reversed(rows[0])]
    assert ids(charges(tmp_path, rows)) == {"RLX783"}
    rows[20][7]["output"] = "no"
    scored(rows[20][7], 0.0)
    assert charges(tmp_path, rows) == []


@pytest.mark.parametrize(("versions", "expected"), [((0,) * 21, {"RLX792"}), (range(21), {"RLX783"})])
def test_answers_follow_from_weights_that_never_arrive(
    versions: Sequence[int], expected: set[str], tmp_path: Path
) -> None:
    """The cause is named alone; where the weights arrive, the answers are."""
    rows = recorded()
    for step in rows:
        rows[step] = [dict(row, step=step, uid=str(uuid.uuid4())) for row in reversed(rows[0])]
    charges(tmp_path, rows)
    evidence = replace(read_evidence([tmp_path]), backend="verl", weights=(trainer(range(21)), engine(versions)))
    promised = replace(EXPECTED, weights=WeightExpectation(1, 1))
    verdict = judge(evidence, promised, RunState.FINISHED, arm="main", setup=FILE)
    assert {"RLX783", "RLX792"} & {finding.id for finding in verdict.findings} == expected


def test_answers_that_stay_the_same_over_few_steps(tmp_path: Path) -> None:
    lines = recorded()[0]
    assert charges(tmp_path, {0: lines, 4: [dict(row, uid="") for row in lines]}) == []


@pytest.mark.parametrize("copied", [100, 60])
def test_outputs_that_are_those_of_an_earlier_step(tmp_path: Path, copied: int) -> None:
    rows = recorded()
    rows[20] = [dict(row, step=20) for row in rows[15][:copied]] + rows[20][copied:]
    (found,) = charges(tmp_path, rows)
    assert (found.finding.id, found.finding.step, found.contradicts) == ("RLX784", 20, True)
    assert "step 15" in found.finding.message


@pytest.mark.parametrize("uid", ["{number}_0_0", "7", "00000000-0000-0000-0000-{number:012d}_0_0", None])
def test_ids_that_are_not_drawn_anew_may_repeat(tmp_path: Path, uid: str | None) -> None:
    rows = recorded()
    for lines in rows.values():
        for number, row in enumerate(lines):
            row["uid"] = uid and uid.format(number=number)
    assert charges(tmp_path, rows) == []


def test_one_answer_graded_otherwise_is_a_warning(tmp_path: Path) -> None:
    rows = recorded()
    scored(next(row for row in rows[20] if is_right(row)), 0.0)
    (found,) = charges(tmp_path, rows)
    assert (found.finding.id, found.status, found.finding.severity) == ("RLX782", VerdictStatus.VALID, Severity.WARNING)


def test_only_the_file_of_a_recipe_of_rlx_is_replayed() -> None:
    gsm8k = hashlib.sha256((RECIPES / "gsm8k/reward.py").read_bytes()).hexdigest()
    assert (grader_of_file(TINY, {}), grader_of_file(gsm8k, {})) == (EXACT, GSM8K)
    assert grader_of_file(gsm8k, {"method": "strict"}) == GSM8K
    assert grader_of_file(gsm8k, {"method": "flexible"}) == grader_of_file("", {}) == ""


@pytest.mark.parametrize(
    ("grader", "answer", "truth", "says"),
    [
        (EXACT, " 7<|im_end|>", "7", True),
        (EXACT, "07", "7", False),
        (GSM8K, "so #### 1,234", "1234", True),
        (GSM8K, "7", "7", False),
        (GSM8K, "#### 7 or #### 8", "7", None),
        (GSM8K, "#### 7" + " " * 400, "7", None),
        (GSM8K, "#### 7." + "x" * 299, "7", False),
        (GSM8K, "y" * 100 + "#### 7" + "x" * 285, "7", None),
        (BOXED, "is \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}", True),
        (BOXED, "is \\boxed{0.5}", "\\frac{1}{2}", None),
        (BOXED, "\\boxed{7", "7", None),
        (BOXED, "\\boxed{7} and \\fbox{8}", "7", None),
    ],
)
def test_replays(grader: str, answer: str, truth: str, says: bool | None) -> None:
    assert REPLAYS[grader](answer, truth) is says


@pytest.mark.parametrize("seed", range(5))
def test_reading_goes_on_where_it_ended(seed: int) -> None:
    data = (RECORDED / "validation/20.jsonl").read_bytes()
    whole, drawing = ValidationParser(), random.Random(seed)
    whole.feed(data)
    cuts = sorted(drawing.sample(range(len(data)), 3))
    parser, at = ValidationParser(), 0
    for end in (*cuts, len(data)):
        parser.feed(data[at:end])
        at = end - parser.pending
        state = json.loads(json.dumps(parser.state()))
        parser = ValidationParser()
        parser.restore(state)
    assert parser.found() == whole.found()
    assert (whole.found().kept.answers, whole.found().kept.items) == (100, 100)


def test_of_many_answers_those_to_the_same_items_are_compared() -> None:
    lines = [{"input": f"{number // 2}?", "output": str(number % 2), "gts": "1", "acc": 1} for number in range(20_000)]
    found = []
    for seed in (1, 2):
        random.Random(seed).shuffle(lines)
        parser = ValidationParser()
        for line in lines:
            parser.feed(json.dumps(line).encode() + b"\n")
        found.append(parser.found())
    one, other = ({(each.item, each.answer) for each in file.sampled} for file in found)
    assert one == other and 4000 < len(one) <= 4096
    assert found[0].kept.digest == found[1].kept.digest and found[0].kept.items == 10_000


def test_what_was_read_is_kept_with_the_evidence(tmp_path: Path) -> None:
    class Kept(dict[str, bytes]):
        def load(self, name: str) -> memoryview | None:
            return memoryview(self[name]) if name in self else None

        def save(self, name: str, parts: Sequence[bytes]) -> None:
            self[name] = b"".join(parts)

    store, rows = Kept(), recorded()
    graded_anew(rows)
    charges(tmp_path, rows)
    evidence = read_evidence([tmp_path])
    keep(evidence, "name", "digest", store)
    again = kept("name", "digest", store, lambda: evidence)
    assert again is not None and again.outputs == evidence.outputs and again.outputs[5].graded_before.number == 3


HOME = "/home/me/.cache/rlx/tiny-cpu/"
ONE, OTHER = {"sha256": "a" * 64, "bytes": 5569}, {"sha256": "b" * 64, "bytes": 3834}
EDGES = {"sha256_of_first_and_last_mb": "c" * 64, "bytes": 1 << 30}
PATHS = {"train": "~/.cache/rlx/tiny-cpu/train.parquet", "val": "~/.cache/rlx/tiny-cpu/val.parquet"}


def data_charges(files: object, recipe: Mapping[str, Any]) -> list[CheckFinding]:
    setup = Setup({"data": PATHS, **recipe}, found={"data": files})
    return list(validation_data.check_files(CheckInput(Evidence(), EXPECTED, RunState.FINISHED, setup=setup)))


@pytest.mark.parametrize(
    ("files", "recipe"),
    [
        ({f"{HOME}train.parquet": ONE, f"{HOME}val.parquet": ONE}, {}),
        ({f"{HOME}train.parquet": EDGES, f"{HOME}val.parquet": EDGES}, {}),
        ({f"{HOME}train.parquet": ONE}, {"data": {"train": PATHS["train"], "val": PATHS["train"]}}),
        ({"/data/a": ONE, "/data/b": {**ONE, "modified": 1}}, {"data": {"train": "/data/a", "val": "/data/b"}}),
        ({"/data/a": ONE, "/data/b": ONE, "/data/c": OTHER}, {"data": {"train": "/data/a", "val": "/data/b"}}),
        ({f"{HOME}train.parquet": ONE, f"{HOME}val.parquet": ONE}, {"waive": {"RLX621": "of another finding"}}),
    ],
)
def test_a_run_that_was_validated_on_its_training_file(files: object, recipe: Mapping[str, Any]) -> None:
    (found,) = data_charges(files, recipe)
    assert (found.finding.id, found.status) == ("RLX785", VerdictStatus.INVALID)


@pytest.mark.parametrize("recipe", [{"waive": {"RLX024": "a demo"}}, {"eval": {"post": {"rows": "held-out"}}}])
def test_one_file_for_both_that_is_accepted_is_a_note(recipe: Mapping[str, Any]) -> None:
    (found,) = data_charges({f"{HOME}train.parquet": ONE, f"{HOME}val.parquet": ONE}, recipe)
    assert (found.finding.severity, found.status) == (Severity.NOTE, VerdictStatus.VALID)


@pytest.mark.parametrize(
    "files",
    [
        {f"{HOME}train.parquet": ONE, f"{HOME}val.parquet": OTHER},
        {f"{HOME}train.parquet": EDGES, f"{HOME}val.parquet": {**EDGES, "bytes": 1 << 31}},
        {f"{HOME}train.parquet": "error: OSError", f"{HOME}val.parquet": "error: OSError"},
        {f"{HOME}train.parquet": ONE},
        {},
        None,
    ],
)
def test_other_files_and_files_of_which_nothing_is_known(files: object) -> None:
    assert data_charges(files, {}) == []
