"""`rlx data gsm8k --preprocess`: a small program of Hydra is in the place of MindSpeed-RL's, and packs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.cli.data import gsm8k
from rlx.errors import RlxError, UsageError
from tests.payload.test_gsm8k import published

STAND_IN = """
import sys
import hydra
name = sys.argv.pop(1)
@hydra.main(config_path="../configs/datasets", config_name=name, version_base=None)
def main(config):
    assert open(config.input).read()
    for part in ("input_ids", "attention_mask", "labels"):
        for end in ("bin", "idx"):
            open(f"{config.output_prefix}_packed_{part}_document.{end}", "w").write(config.tokenizer_name_or_path)
main()
"""


def checkout(folder: Path, program: str = STAND_IN) -> str:
    (folder / "cli").mkdir(parents=True)
    (folder / "configs/datasets").mkdir(parents=True)
    (folder / "configs/datasets/other.yaml").write_text("a: 1\n", encoding="utf-8")
    (folder / "cli/preprocess_data.py").write_text(program, encoding="utf-8")
    return str(folder)


def test_the_six_files_are_made_and_the_checkout_stays_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = published(tmp_path / "in"), tmp_path / "out"
    root = checkout(tmp_path / "check out")
    before = sorted(Path(root).rglob("*"))
    gsm8k([str(source)], to=str(out), framework="mindspeed-rl", tokenizer="/models/q", preprocess=root)
    made = sorted(path.name for path in out.glob("data_packed_*"))
    assert len(made) == 6
    assert (out / "data_packed_labels_document.idx").read_text(encoding="utf-8") == "/models/q"
    printed = [Path(line).name for line in capsys.readouterr().out.splitlines() if "_packed_" in line]
    assert sorted(printed) == made
    assert sorted(Path(root).rglob("*")) == before


def test_what_its_program_says_is_shown(tmp_path: Path) -> None:
    source, words = published(tmp_path / "in"), {"framework": "mindspeed-rl", "tokenizer": "/q"}
    failing = checkout(tmp_path / "failing", "import sys; sys.exit('no such tokenizer')")
    with pytest.raises(RlxError, match="no such tokenizer"):
        gsm8k([str(source)], to=str(tmp_path / "out"), preprocess=failing, **words)  # type: ignore[arg-type]
    idle = checkout(tmp_path / "idle", "")
    with pytest.raises(RlxError, match=r"not there: data_packed_input_ids_document\.bin"):
        gsm8k([str(source)], to=str(tmp_path / "out"), preprocess=idle, **words)  # type: ignore[arg-type]
    with pytest.raises(RlxError, match=r"cli/preprocess_data\.py"):
        gsm8k([str(source)], to=str(tmp_path / "out"), preprocess=str(tmp_path), **words)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="step of MindSpeed-RL"):
        gsm8k([str(source)], to=str(tmp_path / "out"), preprocess=idle)
