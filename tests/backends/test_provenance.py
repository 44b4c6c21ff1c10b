"""provenance.py runs on foreign machines, with whatever Python they have, and must never stop a training run."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from rlx.compare.run_differences import differences
from rlx.resources import payload_folder
from tests.compare.builders import RunBuilder
from tests.runs.toys import command_lines

sys.path.insert(0, str(payload_folder()))
import provenance
import provenance_weights

SCRIPT = payload_folder() / "provenance.py"


def run(folder: Path, *data: str) -> dict[str, Any]:
    output = folder / "provenance.json"
    done = subprocess.run(
        [sys.executable, SCRIPT, output, "/nowhere/model", *data],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    assert done.stdout + done.stderr == ""
    record: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return record


def test_it_names_versions_code_and_data(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").write_bytes(b"rows")
    record = run(tmp_path, str(tmp_path / "train.parquet"))
    assert record["packages"]["torch"] == metadata.version("torch")
    assert Path(record["code"]["verl"], "trainer/main_ppo.py").is_file()
    assert record["python"] == sys.version
    assert record["load"]["processors"] == os.cpu_count() and record["load"]["minute"] >= 0
    data = record["data"][str(tmp_path / "train.parquet")]
    assert (data["bytes"], data["sha256"]) == (4, hashlib.sha256(b"rows").hexdigest())


def test_what_cannot_be_found_out_is_said_in_its_place(tmp_path: Path) -> None:
    record = run(tmp_path, "/nowhere/train.parquet")
    assert record["data"]["/nowhere/train.parquet"].startswith("error: FileNotFoundError")
    assert record["git_commit"] is None


def test_it_never_fails(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "no folder/out.json", "/nowhere"], check=False)
    assert done.returncode == 0


# In a process of its own: another one may have much to tidy up of what other tests left in its memory.
MEASURE = """
import sys, time
sys.path.insert(0, sys.argv[1])
import provenance
start = time.process_time()
provenance.main(sys.argv[2], "/nowhere", sys.argv[3:])
print(time.process_time() - start)
"""


def test_it_is_quick(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x" * 10**6)
    run(tmp_path, str(tmp_path / "data"))
    command = [sys.executable, "-c", MEASURE, SCRIPT.parent, tmp_path / "again.json", tmp_path / "data"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    assert float(done.stdout) < 0.5


def test_the_commit_of_the_working_directory(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x", "-C", str(tmp_path)]
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True, encoding="utf-8"
    ).stdout.strip()
    assert run(tmp_path)["git_commit"] == commit
    subprocess.run([*git, "pack-refs", "--all"], check=True)
    assert run(tmp_path)["git_commit"] == commit
    subprocess.run([*git, "checkout", "-q", "--detach"], check=True)
    assert run(tmp_path)["git_commit"] == commit


def fork(folder: Path) -> list[str]:
    """A working tree with a package `verl`, and the git command for it."""
    git = ["git", "-c", "user.name=x", "-c", "user.email=x", "-C", str(folder)]
    (folder / "verl").mkdir()
    (folder / "verl" / "__init__.py").write_text("a = 1\n", encoding="utf-8")
    (folder / ".gitignore").write_text("*.json\n__pycache__/\n", encoding="utf-8")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *arguments], check=True)
    return git


def from_fork(folder: Path, **environment: str) -> dict[str, Any]:
    """Recorded elsewhere: what counts is where the package is imported from."""
    output = folder.parent / "provenance.json"
    variables = {**os.environ, "PYTHONPATH": str(folder), **environment}
    subprocess.run([sys.executable, SCRIPT, output, "/nowhere/model"], cwd="/", env=variables, check=True)
    record: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return record


def test_uncommitted_changes_of_a_fork_are_on_record(tmp_path: Path) -> None:
    folder = tmp_path / "fork"
    folder.mkdir()
    git = fork(folder)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True, encoding="utf-8"
    ).stdout.strip()
    clean = from_fork(folder)
    assert (clean["commits"]["verl"], clean["changes"]["verl"]) == (head, "none")
    assert clean["changes"]["mindspeed_rl"] is None
    seen = set()
    for file, text in (("verl/__init__.py", "a = 2\n"), ("verl/__init__.py", "a = 3\n"), ("verl/new.py", "")):
        (folder / file).write_text(text, encoding="utf-8")
        seen.add(from_fork(folder)["changes"]["verl"])
    assert len(seen) == 3 and all(len(digest) == 64 for digest in seen)
    (folder / "verl/new.py").unlink()
    (folder / "verl/__init__.py").write_text("a = 1\n", encoding="utf-8")
    index = (folder / ".git/index").read_bytes()
    assert from_fork(folder)["changes"]["verl"] == "none"
    assert (folder / ".git/index").read_bytes() == index


def test_a_fork_of_another_user(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    folder = tmp_path / "fork"
    folder.mkdir()
    fork(folder)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, 12345, 12345)
    assert from_fork(folder)["changes"]["verl"] == "none"


def test_a_repository_runs_nothing_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "fork"
    folder.mkdir()
    git = fork(folder)
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n", encoding="utf-8")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external", "diff.evil.textconv", "core.pager"):
        subprocess.run([*git, "config", key, str(trap)], check=True)
    (folder / ".gitattributes").write_text("*.py diff=evil\n", encoding="utf-8")
    (folder / "verl/__init__.py").write_text("a = 2\n", encoding="utf-8")
    assert len(from_fork(folder)["changes"]["verl"]) == 64
    assert not (tmp_path / "sprung").exists()


def test_a_host_without_git(tmp_path: Path) -> None:
    folder = tmp_path / "fork"
    folder.mkdir()
    git = fork(folder)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True, encoding="utf-8"
    ).stdout.strip()
    record = from_fork(folder, PATH=str(tmp_path))
    assert record["commits"]["verl"] == head
    assert record["changes"]["verl"].startswith("error: FileNotFoundError")


def test_an_environment_in_a_working_tree_is_no_part_of_it(tmp_path: Path) -> None:
    fork(tmp_path)
    packages = tmp_path / ".venv/lib/python3/site-packages"
    (packages / "verl").mkdir(parents=True)
    (packages / "verl/__init__.py").write_text("", encoding="utf-8")
    record = from_fork(packages)
    assert record["code"]["verl"] == str(packages / "verl")
    assert record["commits"]["verl"] is None and record["changes"]["verl"] is None


def test_the_image_comes_from_whoever_started_the_run(tmp_path: Path) -> None:
    (tmp_path / "image").write_text("quay.io/x@sha256:12\n", encoding="utf-8")
    assert from_fork(tmp_path / "none", RLX_RUN_DIR=str(tmp_path))["image"] == "quay.io/x@sha256:12"
    assert from_fork(tmp_path / "none", RLX_IMAGE="sha256:34")["image"] == "sha256:34"
    assert from_fork(tmp_path / "none")["image"] is None


def test_versions_of_driver_and_cann(tmp_path: Path) -> None:
    (tmp_path / "version.info").write_text("Version=7.35\npackage_version=25.5.0\n", encoding="utf-8")
    (tmp_path / "version.cfg").write_text("# x\ntoolkit_running_version=[7.7.0.1.231:8.2.RC1]\n", encoding="utf-8")
    assert provenance.ascend_version([f"{tmp_path}/none", f"{tmp_path}/version.info"]) == "25.5.0"
    assert provenance.ascend_version([f"{tmp_path}/*.cfg"]) == "8.2.RC1"
    assert provenance.ascend_version([f"{tmp_path}/none"]) is None


def test_big_files_are_sorted_differences_by_their_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("script", sorted(SCRIPT.parent.glob("provenance*.py")), ids=lambda script: script.stem)
def test_it_is_python_3_8_and_standard_library(script: Path) -> None:
    tree = ast.parse(script.read_text(encoding="utf-8"), feature_version=(3, 8))
    modules = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    modules |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in modules} <= {*sys.stdlib_module_names, provenance_weights.__name__}


def model(folder: Path, weights: bytes = b"w" * 3_000_000, template: str = "{{ x }}") -> Path:
    """A model's folder with two files of weights; a header as safetensors has it."""
    folder.mkdir()
    header = json.dumps({"__metadata__": {"format": "pt"}}).encode()
    for number in (1, 2):
        content = len(header).to_bytes(8, "little") + header + weights
        (folder / f"model-{number}-of-2.safetensors").write_bytes(content)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}), encoding="utf-8")
    return folder


def recorded(folder: Path, of: Path) -> dict[str, Any]:
    """The model's part of the record, once the digest in the background is done. It has the lowest priority: where much
    else runs, it has no time of its own."""
    folder.mkdir()
    output, environment = folder / "provenance.json", {**os.environ, "XDG_CACHE_HOME": str(folder.parent / "cache")}
    subprocess.run([sys.executable, SCRIPT, output, of], env=environment, check=True)
    while command_lines(str(output)):
        time.sleep(0.1)
    found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))["model"]
    assert "sha256" in found
    return found


def test_the_same_weights_elsewhere_have_the_same_digests(tmp_path: Path) -> None:
    one, two = (recorded(tmp_path / name, model(tmp_path / f"model-{name}")) for name in ("a", "b"))
    assert (one.pop("path"), two.pop("path")) == (str(tmp_path / "model-a"), str(tmp_path / "model-b"))
    assert one == two
    assert (one["files"], one["bytes"]) == (2, 2 * (3_000_000 + 8 + 34))
    assert len(list((tmp_path / "cache/rlx/weights").iterdir())) == 4


@pytest.mark.parametrize("place", [0, 1_234_567, 2_999_999])
def test_one_byte_in_the_middle_is_another_model(tmp_path: Path, place: int) -> None:
    weights = bytearray(b"w" * 3_000_000)
    weights[place] ^= 1
    one = recorded(tmp_path / "a", model(tmp_path / "model-a"))
    two = recorded(tmp_path / "b", model(tmp_path / "model-b", bytes(weights)))
    assert one["sha256"] != two["sha256"]


def test_what_was_read_is_remembered_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = model(tmp_path / "model") / "model-1-of-2.safetensors"
    first = provenance_weights.known_or_read(file, os.getpid())
    # Nobody waits for it: it is known without reading.
    assert provenance_weights.known_or_read(file, 2**30) == first
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(provenance_weights.TrainingEndedError):
        provenance_weights.known_or_read(file, 2**30)
    assert provenance_weights.known_or_read(file, os.getpid()) != first


def test_a_folder_without_weights_is_said(tmp_path: Path) -> None:
    (tmp_path / "out.json").parent.mkdir(exist_ok=True)
    subprocess.run([sys.executable, SCRIPT, tmp_path / "out.json", tmp_path], check=True)
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["model"].startswith(
        "error: ValueError: no weights"
    )


def test_other_weights_are_named_where_runs_are_compared(tmp_path: Path) -> None:
    found = [
        {"packages": {}, "model": provenance_weights.shape_of(model(tmp_path / name, name.encode() * 9, name))}
        for name in ("a", "b")
    ]
    control, treatment = (RunBuilder(arm=arm, provenance=each).judged() for arm, each in zip("xy", found, strict=True))
    assert [item.key for item in differences(control, treatment)] == [
        "chat template",
        "model weights (headers and samples)",
    ]
