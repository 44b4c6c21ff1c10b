"""provenance.py runs on foreign machines, with whatever Python they have, and must never stop a training run."""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from rlx.payload import provenance
from rlx.resources import payload_folder

SCRIPT = payload_folder() / "provenance.py"


def run(folder: Path, *data: str) -> dict[str, Any]:
    output = folder / "provenance.json"
    done = subprocess.run(
        [sys.executable, SCRIPT, output, *data], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout + done.stderr == ""
    record: dict[str, Any] = json.loads(output.read_text())
    return record


def test_it_names_versions_code_and_data(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").write_bytes(b"rows")
    record = run(tmp_path, str(tmp_path / "train.parquet"))
    assert record["packages"]["torch"] == metadata.version("torch")
    assert Path(record["code"]["verl"], "trainer/main_ppo.py").is_file()
    assert record["python"] == sys.version
    data = record["data"][str(tmp_path / "train.parquet")]
    assert (data["bytes"], data["sha256"]) == (4, hashlib.sha256(b"rows").hexdigest())


def test_what_cannot_be_found_out_is_said_in_its_place(tmp_path: Path) -> None:
    record = run(tmp_path, "/nowhere/train.parquet")
    assert record["data"]["/nowhere/train.parquet"].startswith("error: FileNotFoundError")
    assert record["git_commit"] is None


def test_it_never_fails(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "no folder/out.json"], check=False)
    assert done.returncode == 0


def test_it_is_quick(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x" * 10**6)
    run(tmp_path, str(tmp_path / "data"))
    start = time.process_time()
    provenance.main(str(tmp_path / "again.json"), [str(tmp_path / "data")])
    assert time.process_time() - start < 0.5


def test_the_commit_of_the_working_directory(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x", "-C", str(tmp_path)]
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert run(tmp_path)["git_commit"] == commit
    subprocess.run([*git, "pack-refs", "--all"], check=True)
    assert run(tmp_path)["git_commit"] == commit
    subprocess.run([*git, "checkout", "-q", "--detach"], check=True)
    assert run(tmp_path)["git_commit"] == commit


def test_big_files_are_told_apart_by_their_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "HASH_WHOLE_UP_TO", 10)
    monkeypatch.setattr(provenance, "EDGE", 4)
    file = tmp_path / "big"
    digests = []
    for content in (b"head-middle-tail", b"head-MIDDLE-tail", b"head-middle-TAIL", b"HEAD-middle-tail"):
        file.write_bytes(content)
        record = provenance.fingerprint(file)
        assert "sha256" not in record
        digests.append(record["sha256_of_first_and_last_mb"])
    assert digests[0] == digests[1] == hashlib.sha256(b"headtail").hexdigest()
    assert len(set(digests[1:])) == 3


def test_whole_files_are_hashed_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "EDGE", 3)
    (tmp_path / "data").write_bytes(b"0123456789")
    expected = hashlib.sha256(b"0123456789").hexdigest()
    assert provenance.fingerprint(tmp_path / "data")["sha256"] == expected


def test_it_is_python_3_8_and_standard_library() -> None:
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 8))
    modules = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    modules |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in modules} <= sys.stdlib_module_names
