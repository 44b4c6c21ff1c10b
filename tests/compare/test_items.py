"""Two checkpoints item by item: the recorded pair as a person compares it, and what keeps items from being paired."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from rlx.compare import Comparison, PairedItems, TwoProportions, compare
from rlx.evidence import ItemScores
from rlx.model import Severity
from tests.cli.support import rlx
from tests.compare.builders import RunBuilder, only

STEP = 20
Scores = dict[str, tuple[float, float]]


def outputs(run: Path) -> Path:
    return run / "attempts/1/validation" / f"{STEP}.jsonl"


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in outputs(run).read_text(encoding="utf-8").splitlines()]


def edit(run: Path, change: Callable[[dict[str, Any]], Any], first: int = 1) -> None:
    """Changes the first lines of the outputs."""
    kept = lines(run)
    for line in kept[:first]:
        change(line)
    outputs(run).write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")


def contrast(code: int = 0) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(rlx("compare", "baseline", "aqn", "--json", code=code).stdout)
    return answer["contrasts"][0]  # type: ignore[no-any-return]


def ids(found: dict[str, Any]) -> set[str]:
    return {finding["id"] for finding in found["findings"]}


def test_the_recorded_pair_is_compared_item_by_item(pair: dict[str, Path], wording: SnapshotAssertion) -> None:
    right = {arm: {line["input"]: line["acc"] for line in lines(run)} for arm, run in pair.items()}
    changes = [right["aqn"][prompt] - value for prompt, value in right["baseline"].items()]
    found = contrast()
    test = found["test"]
    assert (test["n"], test["better"], test["worse"]) == (100, changes.count(1.0), changes.count(-1.0))
    assert test["difference"] == pytest.approx(sum(changes) / 100)
    assert test["low"] < test["difference"] < test["high"]
    shown = rlx("compare", "baseline", "aqn").stdout
    assert all(sentence in shown for sentence in found["sentences"])
    assert found["sentences"] == wording
    assert "s/step" in shown and "tokens/s" in shown and "all steps" in shown


def test_nothing_but_the_treatment_differs_in_the_recorded_pair(pair: dict[str, Path]) -> None:
    found = contrast()
    assert [(item["key"], item["declared"]) for item in found["differences"]] == [("aqn", True)]
    config = pair["aqn"] / "attempts/1/hydra/.hydra/config.yaml"
    config.write_text(
        config.read_text(encoding="utf-8").replace("clip_ratio_high: 0.2", "clip_ratio_high: 0.28"), encoding="utf-8"
    )
    found = json.loads(rlx("compare", "baseline", "aqn", "--json", code=14).stdout)["contrasts"][0]
    assert "config actor_rollout_ref.actor.clip_ratio_high" in {item["key"] for item in found["differences"]}
    assert ids(found) == {"RLX932", "RLX905", "RLX922"}


def test_a_value_that_the_kept_outputs_contradict_is_no_result(
    pair: dict[str, Path], wording: SnapshotAssertion
) -> None:
    edit(pair["aqn"], lambda line: line.update(acc=1.0 - line["acc"]))
    answer = json.loads(rlx("compare", "baseline", "aqn", "--json", code=14).stdout)
    found, treated = answer["contrasts"][0], answer["treatments"][0]
    assert found["test"] is None and not answer["reportable"]
    assert found["sentences"] == wording
    assert (treated["struck"], treated["verdict"]["dissent"], answer["control"]["struck"]) == (True, True, False)
    assert "RLX713" in {finding["id"] for finding in treated["verdict"]["findings"]}
    assert "(contradicted)" in rlx("compare", "baseline", "aqn", "--md", code=14).stdout


def test_one_run_that_kept_outputs_is_held_to_them_too(pair: dict[str, Path]) -> None:
    outputs(pair["baseline"]).unlink()
    edit(pair["aqn"], lambda line: line.update(acc=1.0 - line["acc"]))
    assert contrast(code=14)["test"] is None


def test_outputs_whose_mean_the_log_rounds_are_no_contradiction() -> None:
    scores = {str(item): (float(item % 2), float(item % 3 == 0)) for item in range(21)}
    rounded = compared(scores, digits=3)
    assert rounded.reportable and isinstance(only(rounded).test, PairedItems)
    assert not compared(scores, digits=1).reportable


def test_a_seed_that_its_outputs_contradict_strikes_its_arm() -> None:
    scores = {str(item): (float(item % 2), 1.0) for item in range(20)}
    control = [RunBuilder(seed=seed, series={STEP: 0.5}).judged() for seed in (1, 2)]
    treated = [RunBuilder(arm="aqn", seed=seed, series={STEP: 1.0}).judged() for seed in (1, 2)]
    kept = {run.run_id: ItemScores(STEP, {key: (one,) for key, (one, _) in scores.items()}) for run in control}
    kept |= {run.run_id: ItemScores(STEP, {key: (one,) for key, (_, one) in scores.items()}) for run in treated}
    assert not compare(control, [treated], items={STEP: kept}).treatments[0].is_excluded
    kept[treated[1].run_id] = kept[control[0].run_id]
    found = compare(control, [treated], items={STEP: kept})
    assert found.treatments[0].is_excluded and not found.control.is_excluded and only(found).test is None


def test_other_items_are_no_comparison(pair: dict[str, Path], wording: SnapshotAssertion) -> None:
    edit(pair["aqn"], lambda line: line.update(input=f"21 November\n{line['input']}"), first=7)
    found = contrast(code=14)
    assert ids(found) == {"RLX714", "RLX905", "RLX922"} and found["test"] is None
    (message,) = [finding["message"] for finding in found["findings"] if finding["id"] == "RLX714"]
    assert message.count("7 of 100") == 2 and message == wording


def test_answers_that_one_run_lost_are_no_other_items() -> None:
    scores = {str(item): (float(item % 2), float(item % 3 == 0)) for item in range(21)}
    lost = dict(list({item: (right,) for item, (_, right) in scores.items()}.items())[1:])
    run = RunBuilder(arm="aqn", series={STEP: sum(value for (value,) in lost.values()) / 20}).judged()
    found = only(compared(scores, {run.run_id: ItemScores(STEP, lost)}, digits=1))
    (finding,) = [each for each in found.findings if each.id == "RLX714"]
    assert finding.severity is Severity.WARNING and "1 of 21 and 0 of 20" in finding.message


def test_without_outputs_the_shares_are_compared(pair: dict[str, Path], wording: SnapshotAssertion) -> None:
    outputs(pair["baseline"]).unlink()
    found = contrast()
    assert ids(found) == {"RLX905", "RLX912", "RLX922"} and "z" in found["test"]
    (told,) = [finding for finding in found["findings"] if finding["id"] == "RLX912"]
    assert "baseline" in told["message"] and "aqn" not in told["message"]
    assert "trainer.validation_data_dir" in told["fix"]
    assert told["message"] == wording
    outputs(pair["aqn"]).unlink()
    (both,) = [finding["message"] for finding in contrast()["findings"] if finding["id"] == "RLX912"]
    assert "baseline" in both and "aqn" in both


def test_a_torn_file_is_no_whole_validation(pair: dict[str, Path]) -> None:
    text = outputs(pair["aqn"]).read_bytes()
    outputs(pair["aqn"]).write_bytes(text[:-40])
    assert contrast(code=14)["test"] is None


def compared(
    scores: Scores, items: dict[str, ItemScores] | None = None, digits: int = 17, **changes: Any
) -> Comparison:
    """Two arms whose logged values are the means of these scores, (control, treatment) by item, to so many digits."""
    n, common = len(scores), {"planned_rows": len(scores), "rows": len(scores), **changes}
    columns = [{item: (pair[side],) for item, pair in scores.items()} for side in (0, 1)]
    values = [round(sum(score for (score,) in column.values()) / n, digits) for column in columns]
    runs = [
        RunBuilder(arm="baseline", series={STEP: values[0]}, **common).judged(),
        RunBuilder(arm="aqn", series={STEP: values[1]}, recipe={"aqn": {}}, treatment=("aqn",), **common).judged(),
    ]
    kept = {run.run_id: ItemScores(STEP, column) for run, column in zip(runs, columns, strict=True)}
    return compare([runs[0]], [[runs[1]]], items={STEP: {**kept, **(items or {})}})


SCORES = st.dictionaries(
    st.text(min_size=1, max_size=4), st.tuples(*[st.sampled_from([0.0, 1.0])] * 2), min_size=2, max_size=40
)


@settings(deadline=None)
@given(SCORES, st.randoms())
def test_pairs_do_not_depend_on_the_order_of_the_lines(scores: Scores, random: Any) -> None:
    test = only(compared(scores)).test
    assert isinstance(test, PairedItems)
    assert test.n == len(scores)
    assert test.better - test.worse == pytest.approx(test.difference * test.n)
    assert test.better == sum(right > left for left, right in scores.values())
    shuffled = list(scores.items())
    random.shuffle(shuffled)
    assert only(compared(dict(shuffled))).test == test


def test_several_sources_that_the_outputs_do_not_name(wording: SnapshotAssertion) -> None:
    """Which items the value is the mean of is not known, so nothing is paired."""
    scores = {str(item): (float(item % 2), 1.0) for item in range(20)}
    found = only(compared(scores, more_metrics={"val-core/math/acc/mean@1": 0.3}))
    assert found.test is None and "2 data sources" in found.no_test
    assert {finding.id for finding in found.findings} == {"RLX905", "RLX912"}
    assert "2 data sources" in found.findings[-1].message and found.findings[-1].message == wording


def test_items_of_another_step_are_not_used() -> None:
    scores = {str(item): (float(item % 2), 1.0) for item in range(20)}
    run = RunBuilder(arm="aqn").judged()
    other = ItemScores(STEP - 5, {item: (1.0,) for item in scores})
    assert isinstance(only(compared(scores, {run.run_id: other})).test, TwoProportions)


def test_of_two_values_of_the_compared_step_neither_is_a_result(
    pair: dict[str, Path], wording: SnapshotAssertion
) -> None:
    metrics = pair["aqn"] / "attempts/1/metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    (last,) = [row for row in rows if row["step"] == STEP]
    last["data"]["val-core/rlx/tiny-addition/acc/mean@1"] = 0.99
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = contrast(code=14)
    assert "RLX910" in ids(found) and found["test"] is None and not found["reportable"]
    assert "aqn" in found["no_test"] and found["sentences"] == wording, "the kept outputs know which value is right"


def copy_outputs(source: Path, target: Path, steps: dict[int, int]) -> None:
    """Put outputs of other steps or another run in the place of its own, with the values that they are the mean of."""
    for step, of in steps.items():
        path = source / f"attempts/1/validation/{of}.jsonl"
        copied = [{**json.loads(line), "step": step} for line in path.read_text(encoding="utf-8").splitlines()]
        text = "".join(json.dumps(line) + "\n" for line in copied)
        (target / f"attempts/1/validation/{step}.jsonl").write_text(text, encoding="utf-8")
        metrics = target / "attempts/1/metrics.jsonl"
        rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
        value = sum(line["acc"] for line in copied) / len(copied)
        for row in rows:
            if row["step"] == step:
                row["data"] |= {key: value for key in row["data"] if key.startswith("val-")}
        metrics.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        log = target / "attempts/1/log"
        log.write_bytes(
            b"".join(line for line in log.read_bytes().splitlines(True) if f"step:{step} - ".encode() not in line)
        )


@pytest.mark.parametrize("steps", [{20: 20}, {0: 0}, {10: 10}, {5: 15}, {0: 0, 20: 20}, {15: 20}])
def test_outputs_of_the_other_arm_are_no_comparison(pair: dict[str, Path], steps: dict[int, int]) -> None:
    copy_outputs(pair["baseline"], pair["aqn"], steps)
    found = contrast(code=14)
    (copied,) = [finding for finding in found["findings"] if finding["id"] == "RLX924"]
    assert (copied["severity"], found["test"]) == ("error", None)
    step, of = next(iter(steps.items()))
    assert f"step {of} of baseline and step {step} of aqn" in copied["message"]


def test_outputs_of_an_earlier_step_of_the_same_run_are_no_result(pair: dict[str, Path]) -> None:
    copy_outputs(pair["aqn"], pair["aqn"], {20: 15})
    answer = json.loads(rlx("compare", "baseline", "aqn", "--json", code=14).stdout)
    assert "RLX784" in {finding["id"] for finding in answer["treatments"][0]["verdict"]["findings"]}
    assert answer["treatments"][0]["struck"] and not answer["control"]["struck"]


def test_scores_that_the_known_reward_contradicts_make_the_run_invalid(pair: dict[str, Path]) -> None:
    edit(pair["aqn"], lambda line: line.update(acc=0.0 if line["output"] == line["gts"] else 1.0), first=60)
    answer = json.loads(rlx("compare", "baseline", "aqn", "--json", code=14).stdout)
    verdict = answer["treatments"][0]["verdict"]
    assert verdict["status"] == "invalid" and {"RLX780", "RLX782"} <= {each["id"] for each in verdict["findings"]}


def repeated(scores: Scores, rows: dict[str, int]) -> Comparison:
    """Two arms of which some items have several rows."""
    columns = [{item: (pair[side],) * rows.get(item, 1) for item, pair in scores.items()} for side in (0, 1)]
    n = sum(map(len, columns[0].values()))
    values = [sum(map(sum, column.values())) / n for column in columns]
    builder = RunBuilder(planned_rows=n, rows=n)
    runs = [
        replace(builder, arm="baseline", series={STEP: values[0]}).judged(),
        replace(builder, arm="aqn", series={STEP: values[1]}, recipe={"aqn": {}}, treatment=("aqn",)).judged(),
    ]
    kept = {run.run_id: ItemScores(STEP, column, repeats=rows) for run, column in zip(runs, columns, strict=True)}
    return compare([runs[0]], [[runs[1]]], items={STEP: kept})


def test_rows_of_one_item_are_one_item() -> None:
    scores = {str(item): (float(item < 4), float(item < 5)) for item in range(10)}
    found = only(repeated(scores, dict.fromkeys(scores, 10)))
    assert isinstance(found.test, PairedItems) and (found.test.n, found.test.better, found.test.worse) == (10, 1, 0)
    assert found.test.p_value == pytest.approx(0.317, abs=0.001)
    (finding,) = [each for each in found.findings if each.id == "RLX925"]
    assert finding.severity is Severity.WARNING and "90 of 100" in finding.message


@pytest.mark.parametrize(
    ("again", "severity"), [(0, None), (1, Severity.NOTE), (4, Severity.NOTE), (6, Severity.WARNING)]
)
def test_few_repeats_are_noted(again: int, severity: Severity | None) -> None:
    scores = {str(item): (float(item % 2), float(item % 3 == 0)) for item in range(100 - again)}
    found = only(repeated(scores, {str(item): 2 for item in range(again)}))
    assert [each.severity for each in found.findings if each.id == "RLX925"] == ([severity] if severity else [])
    assert isinstance(found.test, PairedItems) and found.test.n == 100 - again and found.reportable


def test_repeats_that_one_run_shows_forbid_a_test_of_shares() -> None:
    scores = {str(item): (float(item < 4), float(item < 5)) for item in range(10)}
    columns = {item: (pair[1],) * 10 for item, pair in scores.items()}
    runs = [
        RunBuilder(series={STEP: 0.4}, planned_rows=100, rows=100).judged(),
        RunBuilder(
            arm="aqn", series={STEP: 0.5}, planned_rows=100, rows=100, recipe={"aqn": {}}, treatment=("aqn",)
        ).judged(),
    ]
    kept = {runs[1].run_id: ItemScores(STEP, columns, repeats=dict.fromkeys(columns, 10))}
    found = only(compare([runs[0]], [[runs[1]]], items={STEP: kept}))
    assert found.test is None and "90 of 100" in found.no_test


def test_rows_that_were_replaced_by_one_of_the_others_are_other_items(pair: dict[str, Path]) -> None:
    """As many answers, and fewer items: nothing was lost."""
    path = pair["aqn"] / "attempts/1/validation/20.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    easy = next(row for row in rows if row["acc"] == 1)
    for row in [each for each in rows if each["acc"] == 1 and each is not easy][:8]:
        row.update({key: easy[key] for key in ("input", "gts", "output")})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = {finding["id"]: finding["severity"] for finding in contrast(code=14)["findings"]}
    assert found["RLX714"] == "error"
