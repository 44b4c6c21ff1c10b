"""The scripts of a repository are read at a commit, and held against what bash passed on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import public_scripts
from benchmarks.public_scripts import Reading, Source, git_folder, readings, reasons, table

SCRIPTS = {
    "examples/good.sh": "D=/a.parquet\npython3 -m verl.trainer.main_ppo data.train_files=$D data.train_batch_size=64\n",
    "examples/other.sh": "ray job submit -- python3 train.py --actor-num-nodes 1\n",
    "examples/asks.sh": "python3 -m verl.trainer.main_ppo --config-path=/x/y --config-name=mine\n",
    "examples/serves.sh": "python3 -m http.server\n",
    "examples/hides.sh": 'if [ -z "$BASE" ]; then exit 1; fi\n$(cat main_ppo) main_ppo\n',
    "examples/page.md": "```bash\ntrl grpo --config a.yaml\n```\n```bash\npip install trl\n```\n",
    "docs/outside.sh": "python3 -m verl.trainer.main_ppo\n",
}


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=a", "-c", "user.email=a@b")
    command = ["git", "-C", str(folder), *settings, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout.strip()


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Reading]:
    checkout = tmp_path / "them+theirs"
    for name, text in SCRIPTS.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text, encoding="utf-8")
    git(checkout, "init", "-q")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "all")
    source = Source("them/theirs", git(checkout, "rev-parse", "HEAD"), ("examples",))
    # What is in the folder now is not what is read.
    (checkout / "examples/good.sh").write_text("echo", encoding="utf-8")
    facts = {"words": ["data.train_files=/a.parquet", "data.train_batch_size=32"]}
    monkeypatch.setattr(public_scripts, "SOURCES", (source, Source("them/missing", "0" * 40, ("examples",))))
    monkeypatch.setattr(public_scripts, "_recorded", lambda: {("them/theirs", "examples/good.sh"): facts})
    return {each.path: each for each in readings(tmp_path)}


def test_each_script_has_what_became_of_it(read: dict[str, Reading]) -> None:
    assert {path: each.kind for path, each in read.items()} == {
        "examples/good.sh": "recipe",
        "examples/other.sh": "trainer named",
        "examples/asks.sh": "file asked for",
        "examples/serves.sh": "no training",
        "examples/hides.sh": "not read",
        "examples/page-0.sh": "trainer named",
    }
    assert "is slime's, which rlx has no recipes for | trainer named | 1" in reasons([*read.values()])


def test_a_value_that_bash_gives_otherwise_is_wrong(read: dict[str, Reading]) -> None:
    good = read["examples/good.sh"]
    assert good.checked == 2
    assert [line.partition(":")[0] for line in good.wrong] == ["data.train_batch_size"]
    assert table([*read.values()]).splitlines()[-1].endswith("| 6 | 1 | 2 | 1 | 1 | 1 | 2 | 0 | 1 |")


def test_a_mirror_is_found_as_it_was_brought(tmp_path: Path) -> None:
    assert git_folder(tmp_path, "them/theirs") is None
    for name in ("them+theirs/repo", "them/theirs/.git", "theirs"):
        folder = tmp_path / name.replace("/", "-") / name
        (folder / "objects").mkdir(parents=True)
        assert git_folder(tmp_path / name.replace("/", "-"), "them/theirs") == folder
