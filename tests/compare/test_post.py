"""Two runs of which `eval: post` is the result: a recorded pair, with an evaluation after each training added.

The validations that verl carried out by itself stay in the log. They count other rows, and nothing is judged by them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import rlx
from tests.compare.builders import RunBuilder, only

POST, OWN = "val-core/post/acc/mean@1", "val-core/rlx/tiny-addition/acc/mean@1"
# Of 40 rows each arm is right where its pattern says so; the last rows tell them apart.
RIGHT = {"baseline": 24, "aqn": 36}
STEP = 20
Pair = dict[str, Path]


@pytest.fixture
def evaluated(pair: Pair) -> Pair:
    for arm, run in pair.items():
        attempt = run / "attempts/1"
        (attempt / "validation").rename(attempt / "validation-in-training")
        (attempt / "validation").mkdir()
        lines = [_line(number, number < RIGHT[arm]) for number in range(40)]
        (attempt / "validation/20.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
        )
        value = {POST: RIGHT[arm] / 40}
        with (attempt / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": STEP, "data": value}) + "\n")
        with (attempt / "log").open("a", encoding="utf-8") as file:
            file.write(f"step:{STEP} - {POST}:{value[POST]!r}\n")
        promise(run, {"rows": "/data/held-out.parquet", "n": 1}, row_count=40)
    return pair


def _line(number: int, right: bool) -> dict[str, Any]:
    score = {"score": float(right), "reward": float(right), "acc": float(right)}
    return {
        "input": f"question {number}",
        "output": "right" if right else "wrong",
        "gts": str(number),
        "step": STEP,
        "data_source": "post",
        **score,
    }


def promise(run: Path, post: dict[str, Any], row_count: int | None) -> None:
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    manifest["plan"]["recipe"]["eval"]["post"] = post
    manifest["plan"]["expectations"] |= {
        "metric": POST,
        "validation_steps": [STEP],
        "validation_items": row_count,
        "validation_samples": 1,
    }
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def compared(*arguments: str, code: int = 0) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(rlx("compare", "baseline", "aqn", "--json", *arguments, code=code).stdout)
    return answer


def test_both_are_valid_and_compared_by_what_was_asked_after_the_training(evaluated: Pair) -> None:
    verdicts = {row["arm"]: row["verdict"] for row in json.loads(rlx("status", "--json").stdout)["runs"]}
    assert {arm: verdict["status"] for arm, verdict in verdicts.items()} == {"baseline": "valid", "aqn": "valid"}
    answer = compared()
    (contrast,) = answer["contrasts"]
    assert answer["metric"] == POST and answer["reportable"]
    assert (contrast["step"], contrast["control_value"], contrast["treatment_value"]) == (STEP, 0.6, 0.9)
    assert (contrast["test"]["n"], contrast["test"]["better"], contrast["test"]["worse"]) == (40, 12, 0)
    assert {finding["id"] for finding in contrast["findings"]} == {"RLX905", "RLX922"}, "one seed an arm, as ever"


def test_the_validations_during_the_training_can_still_be_asked_for(evaluated: Pair) -> None:
    """n is theirs, 100, by the log: the plan's 40 are other rows. Their outputs lie elsewhere: no pairs."""
    (contrast,) = compared("--metric", OWN)["contrasts"]
    assert contrast["test"]["n"] == 100 and "better" not in contrast["test"]
    assert {finding["id"] for finding in contrast["findings"]} == {"RLX905", "RLX912", "RLX922"}


def test_without_a_promise_the_answers_tell_how_many_there_are(evaluated: Pair) -> None:
    for run in evaluated.values():
        promise(run, {"rows": "/data/held-out.parquet", "n": 1}, row_count=None)
    assert compared()["contrasts"][0]["test"]["n"] == 40


@pytest.mark.parametrize(
    ("break_it", "status", "id"),
    [
        (lambda run: promise(run, {"rows": "/data/held-out.parquet", "n": 1}, row_count=41), "unverified", "RLX705"),
        (
            lambda run: (run / "attempts/1/validation/20.jsonl").write_text('{"input": ""}\n' * 39, encoding="utf-8"),
            "unverified",
            "RLX705",
        ),
        (lambda run: _value(run, 0.6789), "valid", "RLX708"),
        (lambda run: _value(run, float("nan")), "incomplete", "RLX702"),
    ],
    ids=["another number of rows", "fewer answers", "partial credit of an own reward", "no value"],
)
def test_what_speaks_against_it(break_it: Callable[[Path], object], status: str, id: str, evaluated: Pair) -> None:
    break_it(evaluated["baseline"])
    (row,) = json.loads(rlx("status", "--json", "baseline").stdout)["runs"]
    assert row["verdict"]["status"] == status, row["verdict"]
    assert id in {finding["id"] for finding in row["verdict"]["findings"]}


def _value(run: Path, value: float) -> None:
    for name, before, after in (
        ("metrics.jsonl", f'"{POST}": 0.6', f'"{POST}": {json.dumps(value)}'),
        ("log", f"{POST}:0.6", f"{POST}:{value!r}"),
    ):
        path = run / "attempts/1" / name
        text = path.read_text(encoding="utf-8")
        assert before in text
        path.write_text(text.replace(before, after), encoding="utf-8")


def test_another_evaluation_is_a_difference_that_counts(evaluated: Pair) -> None:
    promise(evaluated["aqn"], {"rows": "/data/held-out.parquet", "n": 1, "temperature": 0.6}, row_count=40)
    assert {"key": "eval.post.temperature", "area": "evaluation"}.items() <= _difference(
        "eval.post.temperature"
    ).items()


def test_an_evaluation_of_one_arm_only_is_a_difference(evaluated: Pair) -> None:
    manifest = evaluated["aqn"] / "manifest.json"
    document = json.loads(manifest.read_text(encoding="utf-8"))
    document["plan"]["recipe"]["eval"]["post"] = None
    manifest.write_text(json.dumps(document), encoding="utf-8")
    assert _difference("eval.post")["area"] == "evaluation"


def _difference(key: str) -> dict[str, Any]:
    (contrast,) = compared(code=14)["contrasts"]
    assert "RLX902" in {finding["id"] for finding in contrast["findings"]}
    (found,) = (each for each in contrast["differences"] if each["key"] == key)
    return found  # type: ignore[no-any-return]


def test_the_digest_of_the_held_out_rows_outranks_their_path() -> None:
    def run(arm: str, path: str, digest: str) -> RunBuilder:
        return RunBuilder(
            arm=arm,
            series={2: 0.5},
            recipe={"eval": {"post": {"rows": path}}},
            provenance={"data": {path: {"sha256": digest}}, "packages": {}},
        )

    from rlx.compare import compare

    def areas(digest: str) -> dict[str, str]:
        left, right = run("baseline", "/a/rows.parquet", "1" * 64), run("aqn", "/b/rows.parquet", digest)
        differences = only(compare([left.judged()], [[right.judged()]])).differences
        return {each.key: each.area.value for each in differences}

    assert areas("1" * 64) == {"eval.post.rows": "incidental"}
    assert areas("2" * 64) == {"eval.post.rows": "evaluation", "held-out data": "evaluation"}
