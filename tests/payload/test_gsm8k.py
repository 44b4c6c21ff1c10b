"""`rlx data gsm8k`: what is published becomes what the frameworks read, wholly or not at all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

pytestmark = pytest.mark.slow

parquet = pytest.importorskip("pyarrow.parquet")

import gsm8k_source  # noqa: E402
import pyarrow  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from rlx.cli.data import INSTRUCTION, gsm8k  # noqa: E402
from rlx.errors import RlxError, UsageError  # noqa: E402

ROWS = [
    {"question": "2+3?", "answer": "It is 2+3 = <<2+3=5>>5.\n#### 5"},
    {"question": "Wie viele\u2028Äpfel?", "answer": "many\n#### -1,234.50"},
]


def published(folder: Path, train: Any = ROWS, test: Any = ROWS[:1]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in (("train", train), ("test", test)):
        lines = (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
        (folder / f"{split}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def read(path: Path) -> list[dict[str, Any]]:
    return parquet.read_table(path).to_pylist()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_verl_gets_its_own_schema(tmp_path: Path) -> None:
    gsm8k([str(published(tmp_path / "in"))], to=str(tmp_path / "out"))
    assert names(tmp_path / "out") == ["test.parquet", "train.parquet"]
    first, second = read(tmp_path / "out/train.parquet")
    assert first == {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": f"2+3? {INSTRUCTION}"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": "5"},
        "extra_info": {"split": "train", "index": 0, **{key: ROWS[0][key] for key in ("question", "answer")}},
    }
    assert second["reward_model"]["ground_truth"] == "-1234.50"


def test_the_form_with_messages_has_what_a_reward_needs_too(tmp_path: Path) -> None:
    gsm8k([str(published(tmp_path / "in"))], to=str(tmp_path / "out"), form="messages", instruction="")
    row = read(tmp_path / "out/test_chat.parquet")[0]
    assert row["messages"] == [{"role": "user", "content": "2+3?"}]
    assert (row["answer"], row["reward_model"]["ground_truth"]) == (ROWS[0]["answer"], "5")
    assert "prompt" not in row


def test_mindspeed_rl_gets_the_answer_alone_and_a_configuration(tmp_path: Path) -> None:
    import yaml

    out = tmp_path / "out"
    gsm8k([str(published(tmp_path / "in"))], to=str(out), framework="mindspeed-rl", tokenizer="/models/q")
    lines = [json.loads(line) for line in (out / "train.jsonl").read_text(encoding="utf-8").split("\n") if line]
    assert lines == [
        {"question": row["question"], "answer": truth} for row, truth in zip(ROWS, ("5", "-1234.50"), strict=True)
    ]
    settings = yaml.safe_load((out / "gsm8k.yaml").read_text(encoding="utf-8"))
    assert settings["input"] == str(out / "train.jsonl")
    assert settings["map_keys"] == {"prompt": "question", "query": "", "response": "answer", "system": ""}
    assert settings["tokenizer_name_or_path"] == "/models/q"
    with pytest.raises(UsageError, match="tokenizer"):
        gsm8k([str(tmp_path / "in")], to=str(out), framework="mindspeed-rl")


@pytest.mark.parametrize("name", ["main/train-00000-of-00001.parquet", "train.parquet", "my_train_v4.parquet"])
def test_parquet_in_the_places_where_it_is_published(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), file)
    gsm8k([str(file if "my_" in name else tmp_path)], to=str(tmp_path / "out"))
    assert [row["extra_info"]["question"] for row in read(tmp_path / "out/train.parquet")] == [
        row["question"] for row in ROWS
    ]


def test_bad_rows_are_named_and_nothing_is_written(tmp_path: Path, wording: SnapshotAssertion) -> None:
    bad = ["{", "[]", {"question": "?"}, {"question": " ", "answer": "#### 1"}, {"question": "?", "answer": "1"}]
    bad += [{"question": "?", "answer": "#### one"}, {"question": 1, "answer": "#### 1"}]
    published(tmp_path / "in", test=[ROWS[0], *bad, *["{"] * 20])
    with pytest.raises(RlxError) as caught:
        gsm8k([str(tmp_path / "in")], to=str(tmp_path / "out"))
    said = caught.value.message.splitlines()
    assert "test.jsonl: 27 of 28" in said[0]
    rows = [line.split(" (Exp")[0].strip() for line in said[1:-1]]
    assert [row.partition(":")[0] for row in rows] == [
        "rows 2, 9, 10, 11",
        *(f"row {number}" for number in range(3, 9)),
    ]
    assert rows == wording
    assert said[-1].strip() == "and 17 more"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "holds no rows"), (b"[" * 200_000 + b"\n", "row 1: no JSON"), (b"\xff\xfe\x00{\n", "row 1: no JSON")],
    ids=["empty", "endless brackets", "not UTF-8"],
)
def test_a_file_that_is_none_is_told(content: bytes, says: str, tmp_path: Path) -> None:
    (published(tmp_path / "in") / "train.jsonl").write_bytes(content)
    with pytest.raises(RlxError) as caught:
        gsm8k([str(tmp_path / "in")], to=str(tmp_path / "out"))
    assert says in caught.value.message and not (tmp_path / "out").exists()


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    source = published(tmp_path / "in")
    for file in source.iterdir():
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    gsm8k([str(source)], to=str(tmp_path / "out"))
    assert len(read(tmp_path / "out/train.parquet")) == 2


@pytest.mark.parametrize("options", [[], ["--for", "mindspeed-rl", "--tokenizer", "/models/m"]], ids=["verl", "msrl"])
def test_a_full_disk_leaves_no_part_of_a_file(options: list[str], tmp_path: Path) -> None:
    """As a limit on the size of files; then there is room, and the same command goes on."""
    source = published(tmp_path / "in", train=[{"question": f"{n} " * 9, "answer": f"#### {n}"} for n in range(2000)])
    command = [sys.executable, "-m", "rlx", "data", "gsm8k", str(source), "--to", str(tmp_path / "out"), *options]
    limited = ["bash", "-c", 'ulimit -f 8; exec "$@"', "bash", *command]
    done = subprocess.run(limited, capture_output=True, text=True, check=False, timeout=120, encoding="utf-8")
    assert (done.returncode, "File too large" in done.stderr) == (1, True), done.stderr
    assert "Traceback" not in done.stderr and names(tmp_path / "out") == []
    again = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, encoding="utf-8")
    assert "train: 2,000 rows" in again.stderr


def test_what_is_complete_is_left_alone_and_what_is_missing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = [str(published(tmp_path / "in"))], tmp_path / "out"
    gsm8k(source, to=str(out))
    train = (out / "train.parquet").stat()
    (out / "test.parquet").unlink()
    capsys.readouterr()
    gsm8k(source, to=str(out), as_json=True)
    files = json.loads(capsys.readouterr().out)["files"]
    assert [(file["split"], file["rows"], file["written"]) for file in files] == [
        ("train", 2, False),
        ("test", 1, True),
    ]
    assert (out / "train.parquet").stat().st_ino == train.st_ino
    assert names(out) == ["test.parquet", "train.parquet"]


def test_another_file_is_replaced_on_request_only(tmp_path: Path) -> None:
    source, out = [str(published(tmp_path / "in"))], tmp_path / "out"
    out.mkdir()
    (out / "test.parquet").write_text("years of work", encoding="utf-8")
    with pytest.raises(RlxError, match=r"test\.parquet"):
        gsm8k(source, to=str(out))
    assert names(out) == ["test.parquet"]
    assert (out / "test.parquet").read_text(encoding="utf-8") == "years of work"
    gsm8k(source, to=str(out), force=True)
    assert len(read(out / "test.parquet")) == 1


def test_the_source_is_never_the_target(tmp_path: Path) -> None:
    source = published(tmp_path / "in")
    before = (source / "train.jsonl").read_bytes()
    (tmp_path / "same").symlink_to(source)
    with pytest.raises(RlxError, match=r"train\.jsonl"):
        gsm8k([str(source)], to=str(tmp_path / "same"), framework="mindspeed-rl", tokenizer="/q", force=True)
    assert (source / "train.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder / "nowhere", "no such file"),
        (lambda folder: folder, "holds no train.jsonl"),
        (lambda folder: folder / "rows.jsonl", "must say which rows"),
        (lambda folder: folder / "train.parquet", "no parquet file"),
        (lambda folder: folder / "empty_train.jsonl", "holds no rows"),
    ],
)
def test_sources_that_are_none(tmp_path: Path, make: Any, words: str) -> None:
    for name, text in (("rows.jsonl", "{}"), ("train.parquet", "version https://git-lfs"), ("empty_train.jsonl", "")):
        path = make(tmp_path)
        if path.name == name:
            path.write_text(text, encoding="utf-8")
    with pytest.raises(RlxError, match=words):
        gsm8k([str(make(tmp_path))], to=str(tmp_path / "out"))


def test_other_counts_than_the_official_ones_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gsm8k([str(published(tmp_path / "in"))], to=str(tmp_path / "out"))
    assert "note: train has 2 rows; the official GSM8K has 7,473" in capsys.readouterr().err


def test_without_pyarrow_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published(tmp_path / "in")
    bare = tmp_path / "bare"
    venv.create(bare)
    monkeypatch.setattr(sys, "executable", str(bare / "bin/python"))
    with pytest.raises(RlxError, match="pyarrow") as caught:
        gsm8k([str(tmp_path / "in")], to=str(tmp_path / "out"))
    assert "[data]" in caught.value.hint
    # Text needs none.
    gsm8k([str(tmp_path / "in")], to=str(tmp_path / "out"), framework="mindspeed-rl", tokenizer="/q")


@given(st.text(), st.decimals(allow_nan=False, allow_infinity=False, places=2), st.booleans())
def test_a_ground_truth_is_what_verl_s_strict_reward_extracts(text: str, number: Any, grouped: bool) -> None:
    """The regular expression is that of verl/utils/reward_score/gsm8k.py."""
    answer = f"{text.replace('#', '')}\n#### {number:,f}" if grouped else f"{text.replace('#', '')}#### {number:f}"
    assert gsm8k_source.fault({"question": "?", "answer": answer}) == ""
    truth = gsm8k_source.final_answer(answer)
    assert re.findall(r"#### (\-?[0-9\.\,]+)", f"so #### {truth}") == [truth]
    assert truth == f"{number:f}"
