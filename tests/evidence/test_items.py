"""The reader of verl's validation outputs, on files as verl's own writers make them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlx.evidence import ItemScores, ItemTexts, read_evidence, read_items, read_texts, series

ACC = "val-core/openai/gsm8k/acc/mean@1"
ROWS = st.lists(
    st.tuples(
        st.text(max_size=8),
        st.one_of(st.none(), st.text(max_size=4), st.integers()),
        st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=3, max_size=3),
    ),
    min_size=1,
    max_size=12,
)
Row = tuple[str, Any, list[float]]


def read(folder: Path, lines: Sequence[dict[str, Any]], metric: str = ACC) -> ItemScores | None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / "20.jsonl").write_text(text, encoding="utf-8", errors="surrogatepass")
    return read_items(folder, 20, metric)


def line(prompt: str, answer: Any = "4", **more: Any) -> dict[str, Any]:
    return {"input": prompt, "output": "4", "gts": answer, "score": 1.0, "step": 20, **more}


def by_trainer(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The order of the data, the answers to a row together (ray_trainer.py)."""
    return [line(prompt, answer, acc=score) for prompt, answer, scores in rows for score in scores]


def by_trainer_v1(rows: Sequence[Row], ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """Sorted by the random id of the row, with two turns an answer (v1/trainer_base.py)."""
    lines = [
        line(prompt, answer, acc=score, uid=f"{row_id}_{session}_{turn}")
        for (prompt, answer, scores), row_id in zip(rows, ids, strict=True)
        for session, score in enumerate(scores)
        for turn in (0, 1)
    ]
    return sorted(lines, key=lambda each: each["uid"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(rows=ROWS, data=st.data())
def test_every_item_has_the_answers_of_all_its_rows(tmp_path: Path, rows: list[Row], data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.uuids(), min_size=len(rows), max_size=len(rows), unique=True))
    metric = "val-core/s/acc/mean@3"
    plain, v1 = read(tmp_path, by_trainer(rows), metric), read(tmp_path, by_trainer_v1(rows, ids), metric)
    assert plain is not None and v1 is not None
    expected = Counter(score for _, _, scores in rows for score in scores)
    assert Counter(score for scores in plain.scores.values() for score in scores) == expected
    assert {item: sorted(scores) for item, scores in plain.scores.items()} == {
        item: sorted(scores) for item, scores in v1.scores.items()
    }
    assert plain.repeats == v1.repeats and plain.rows == len(rows)
    assert all(len(scores) == 3 * plain.repeats.get(item, 1) for item, scores in plain.scores.items())
    assert plain.mean == pytest.approx(sum(sum(scores) / 3 for _, _, scores in rows) / len(rows))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(rows=ROWS, cut=st.integers(min_value=0))
def test_a_torn_file_loses_the_torn_answer_only(tmp_path: Path, rows: list[Row], cut: int) -> None:
    lines = [json.dumps(each) + "\n" for each in by_trainer(rows)]
    text = "".join(lines)
    (tmp_path / "20.jsonl").write_text(text[: cut % (len(text) + 1)], encoding="utf-8")
    left = read_items(tmp_path, 20, ACC)
    whole = text[: cut % (len(text) + 1)].count("}\n")
    # Without its end-of-line, a line may be whole all the same.
    assert (left.rows if left else 0) in (whole, whole + 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)
@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: f'{{"input": {text}'.encode(errors="replace")))
def test_no_content_raises_or_hides_a_line(tmp_path: Path, junk: bytes) -> None:
    good = json.dumps(line("2+2=?", acc=1)).encode()
    (tmp_path / "20.jsonl").write_bytes(good + b"\n" + junk + b"\n" + good + b"\n")
    found = read_items(tmp_path, 20, ACC)
    assert found is not None and found.rows >= 2
    assert next(iter(found.scores.values()))[:2] == (1.0, 1.0)


@pytest.mark.parametrize(
    "value",
    [None, "text", "", [1], {"a": 1}, float("nan"), float("inf"), "nan", 10**400, "9" * 400],
    ids=repr,
)
def test_what_is_no_score_is_no_item(tmp_path: Path, value: Any) -> None:
    found = read(tmp_path, [line("a", acc=value), line("b", acc=1)])
    assert found is not None and list(found.scores.values()) == [(1.0,)]


@pytest.mark.parametrize("value", [True, 1, 1.0, "True", "1.0"])
def test_numpy_writes_numbers_in_several_ways(tmp_path: Path, value: Any) -> None:
    found = read(tmp_path, [line("a", acc=value)])
    assert found is not None and found.mean == 1.0


@pytest.mark.parametrize(
    ("metric", "score"),
    [
        ("val-core/openai/gsm8k/acc/mean@1", 1.0),
        ("val-core/openai/gsm8k/reward/mean@1", -1.0),
        ("val-aux/openai/gsm8k/score/mean@1", 0.25),
        ("val-core/openai/gsm8k/acc/best@1/mean", None),
        ("val-core/openai/gsm8k/acc/maj@1/mean", None),
        ("val-core/openai/gsm8k/acc/mean@2", None),
        ("val-core/openai/gsm8k/acc/mean@0", None),
        ("val-aux/openai/gsm8k/format/mean@1", None),
        ("critic/score/mean", None),
        ("val/test_score/gsm8k", None),
    ],
)
def test_the_metric_says_which_value_counts(tmp_path: Path, metric: str, score: float | None) -> None:
    found = read(tmp_path, [line("a", score=0.25, reward=-1.0, acc=1.0)], metric)
    assert (found.mean if found else None) == score


def test_the_reward_of_a_fork_that_writes_it_once(tmp_path: Path) -> None:
    found = read(tmp_path, [line("a", score=0.5)], "val-core/s/reward/mean@1")
    assert found is not None and found.mean == 0.5


def test_the_right_answer_tells_rows_with_one_prompt_apart(tmp_path: Path) -> None:
    one = read(tmp_path, [line("?", "yes", acc=1), line("?", "no", acc=0), line("?", "no", acc=1)])
    other = read(tmp_path, [line("?", "no", acc=0), line("?", "yes", acc=1), line("?", "no", acc=1)])
    assert one is not None and one == other and sorted(one.scores.values()) == [(0.0, 1.0), (1.0,)]
    assert (list(one.repeats.values()), one.rows) == ([2], 3) and one.mean == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("prompt", "truth"),
    [("2 + 2 =\n?", "4"), (" 2 + 2 = ? ", " 4"), ("\uff12 + 2 = ?", "4"), ("2 +\u00a02 = ?", "\uff14")],
)
def test_white_space_and_forms_of_characters_make_no_other_item(tmp_path: Path, prompt: str, truth: str) -> None:
    found = read(tmp_path, [line("2 + 2 = ?", acc=1), line(prompt, truth, acc=0)])
    assert found is not None and list(found.scores.values()) == [(1.0, 0.0)]


@pytest.mark.parametrize(
    ("prompt", "truth"), [("2 + 3 = ?", "4"), ("2 + 2 = ?", "5"), ("2 + 2 = X", "4"), ("2 + 2 = x", "4")]
)
def test_other_words_case_and_right_answers_are_other_items(tmp_path: Path, prompt: str, truth: str) -> None:
    found = read(tmp_path, [line("2 + 2 = ?", acc=1), line("2 + 2 = ξ", acc=1), line(prompt, truth, acc=0)])
    assert found is not None and len(found.scores) == 3


def test_lines_that_name_their_source(tmp_path: Path) -> None:
    rows = [line("a", acc=1, data_source="openai/gsm8k"), line("b", acc=0, data_source="math")]
    found = read(tmp_path, rows)
    assert found is not None and (found.source, list(found.scores.values())) == ("openai/gsm8k", [(1.0,)])
    assert read(tmp_path, rows, "val-core/elsewhere/acc/mean@1") is None


def test_lines_that_do_not(tmp_path: Path) -> None:
    found = read(tmp_path, [line("a", acc=1)])
    assert found is not None and found.source is None


@pytest.mark.parametrize("arm", ["baseline", "aqn"])
def test_recorded_outputs_are_what_the_log_is_the_mean_of(arm: str) -> None:
    cases = Path(__file__).parent.parent / "cases" / "pairs" / "tiny-cpu"
    (attempt,) = cases.glob(f"tiny-cpu-{arm}-*/attempts/1")
    logged = series(read_evidence([attempt]), metric := "val-core/rlx/tiny-addition/acc/mean@1")
    assert list(logged) == [0, 5, 10, 15, 20]
    for step, value in logged.items():
        found = read_items(attempt / "validation", step, metric)
        assert found is not None and len(found.scores) == 100 and found.mean == pytest.approx(value, abs=1e-12)


def test_no_file_and_no_lines(tmp_path: Path) -> None:
    assert read_items(tmp_path, 20, ACC) is None
    assert read(tmp_path, []) is None
    assert read_items(tmp_path / "gone", 20, ACC) is None


def test_a_text_as_long_as_an_agent_writes_it(tmp_path: Path) -> None:
    """Answers may be long; what is kept of them is a digest."""
    found = read(tmp_path, [line("p" * 1_000_000, acc=1, output="o" * 2_000_000), line("b", acc=0)])
    assert found is not None and found.mean == 0.5
    assert all(len(item) < 40 for item in found.scores)


def test_the_texts_of_some_items_are_read_in_the_order_of_their_scores(tmp_path: Path) -> None:
    lines = [line("1+3", acc=1.0), line("1+3", acc=0.0, output="x" * 1000), line("2+2", acc=1.0), line("2+2", acc=1.0)]
    metric = "val-core/s/acc/mean@2"
    found = read(tmp_path, lines, metric)
    assert found is not None
    (item,) = [key for key in found.scores if found.prompt(key) == "1+3"]
    texts = read_texts(tmp_path, 20, metric, {item, "another"})
    assert texts == {item: ItemTexts("4", ("4", f"{'x' * 200} … {'x' * 200}"))}


def test_texts_without_a_right_answer_or_a_file_are_none(tmp_path: Path) -> None:
    found = read(tmp_path, [{"input": "1+3", "score": 1.0, "acc": 1.0}])
    assert found is not None
    assert read_texts(tmp_path, 20, ACC, set(found.scores)) == {each: ItemTexts("", ("",)) for each in found.scores}
    assert read_texts(tmp_path, 40, ACC, set(found.scores)) == {}
