"""The back-end that is really there counts: found as the run would import it, read once, and nothing believed of it."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.backends.protocol import load_backend
from rlx.hosts import find_installation, installations, local_site
from rlx.hosts.installations import latest_tree
from rlx.model import Installation, InstallationQuestion
from rlx.payload import config_tree
from rlx.planning.rules import check
from rlx.recipe import load_recipe
from tests.backends.conftest import BASE, merge
from tests.backends.conftest import config_tree as released
from tests.cli.support import rlx
from tests.wheels import INSTALLED

PLAIN = {"backend": {"version": INSTALLED}}


def launch(folder: Path, *changes: dict[str, Any], code: int = 5) -> tuple[dict[str, dict[str, str]], str]:
    """The findings of `rlx launch --dry-run` about recipe and back-end, by id; its errors and warnings in words.

    This machine has neither NPUs nor the model, so there are errors of the host, too. That nobody knows the model of
    these recipes (RLX238) is left out.
    """
    document = json.loads(json.dumps(BASE))
    for change in changes:
        merge(document, change)
    recipe = folder / "recipe.yaml"
    document = {"env": {"VLLM_ASCEND_ENABLE_NZ": "0"}, **document}
    recipe.write_text(yaml.safe_dump(document), encoding="utf-8")
    done = rlx("launch", str(recipe), "--dry-run", "--trust", "--json", code=code)
    answer = json.loads(done.stdout)
    plans = answer.get("plans", [{"findings": []}])
    found = {finding["id"]: finding for finding in plans[0]["findings"]}
    told = [
        f"{one['id']} {one['message']} {one['fix']}" for one in answer.get("findings", ()) if one["severity"] != "note"
    ]
    return {id: finding for id, finding in found.items() if id != "RLX238"}, "\n".join([*told, done.stderr])


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    """A checkout of verl with keys of its own, in its sources only, as its authors write them."""
    config = tmp_path / "checkout/verl/trainer/config"
    shutil.copytree(released(INSTALLED), config)
    trainer = yaml.safe_load((config / "ppo_trainer.yaml").read_text(encoding="utf-8"))
    trainer["trainer"]["noise_injection"] = {"log_changes": False, "layer_types": ["rmsnorm"]}
    (config / "ppo_trainer.yaml").write_text(yaml.safe_dump(trainer, sort_keys=False), encoding="utf-8")
    for name in ("verl/__init__.py", "verl/trainer/__init__.py"):
        (tmp_path / "checkout" / name).write_text("raise SystemExit('imported')\n", encoding="utf-8")
    for entry in ("main_ppo.py", "nla_main.py"):
        (config.parent / entry).touch()
    (tmp_path / "checkout/verl/version").mkdir()
    (tmp_path / "checkout/verl/version/version").write_text("0.7.1+aqn\n", encoding="utf-8")
    return tmp_path / "checkout"


def in_fork(fork: Path, **backend: Any) -> dict[str, Any]:
    return {"backend": {"version": "0.7.1", "workdir": str(fork), **backend}}


def counting_python(folder: Path, answer: str = "") -> tuple[Path, Path]:
    """An interpreter that notes each call, and that answers something else if told to."""
    calls, python = folder / "calls", folder / "counting-python"
    python.write_text(f'#!/bin/sh\necho "$4" >>"{calls}"\n{answer}\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o700)
    return python, calls


def questions(calls: Path) -> list[str]:
    """The calls that asked for the back-end; a look at the host starts Python, too."""
    return [line for line in calls.read_text(encoding="utf-8").splitlines() if line in ("look", "pack")]


def test_the_installed_verl_is_found_where_the_recipe_is_right(tmp_path: Path) -> None:
    findings, narration = launch(tmp_path, PLAIN)
    assert findings == {} and "RLX4" not in narration


def test_the_version_that_is_there_counts(tmp_path: Path) -> None:
    # This key is one of 0.9; a table of 0.7 has none of that name.
    new = {"overrides": {"algorithm.filter_groups.max_inflight_gen_batches": 2}}
    findings, narration = launch(tmp_path, {"backend": {"version": "0.7.1"}}, new)
    assert set(findings) == {"RLX402"}
    assert all(fact in findings["RLX402"]["message"] for fact in ("0.7.1", "local", INSTALLED))
    assert "RLX402" in narration


def test_a_key_that_the_installed_verl_lacks_is_refused(tmp_path: Path) -> None:
    old = {"overrides": {"actor_rollout_ref.rollout.layer_name_map": {}}}
    _, complaint = launch(tmp_path, {"backend": {"version": "0.6.1"}}, old, code=2)
    assert "RLX010" in complaint and f"verl {INSTALLED}" in complaint and "layer_name_map" in complaint


def test_keys_of_a_fork_pass_and_others_do_not(tmp_path: Path, fork: Path) -> None:
    mine = {"overrides": {"trainer.noise_injection.log_changes": True}}
    assert launch(tmp_path, in_fork(fork), mine)[0] == {}
    _, complaint = launch(tmp_path, in_fork(fork), {"overrides": {"trainer.noise_injection.log_chagnes": 1}}, code=2)
    assert "RLX010" in complaint
    assert "trainer.noise_injection.log_changes" in complaint
    assert "RLX010" in launch(tmp_path, PLAIN, mine, code=2)[1]


def test_what_changed_since_the_last_launch_counts(tmp_path: Path, fork: Path) -> None:
    mine = {"overrides": {"trainer.noise_injection.log_changes": True}}
    assert launch(tmp_path, in_fork(fork), mine)[0] == {}
    shutil.copy(released(INSTALLED) / "ppo_trainer.yaml", fork / "verl/trainer/config/ppo_trainer.yaml")
    assert "trainer.noise_injection.log_changes" in launch(tmp_path, in_fork(fork), mine, code=2)[1]


def test_the_latest_tree_is_the_one_that_was_looked_at_last(tmp_path: Path) -> None:
    cache = tmp_path / "trees"
    assert latest_tree(cache) is None
    cache.mkdir()
    assert latest_tree(cache) is None
    for name, used in (("a" * 64, 2), ("b" * 64, 3), ("c" * 64, 1), (".scratch", 9)):
        (cache / name).mkdir()
        os.utime(cache / name, (used, used))
    assert latest_tree(cache) == cache / ("b" * 64)


@pytest.mark.parametrize("entrypoint", ["verl.trainer.nla_main", "verl/trainer/nla_main.py"])
def test_a_fork_may_start_elsewhere(entrypoint: str, tmp_path: Path, fork: Path) -> None:
    # A script's own folder comes first in Python's path, so that verl is then the installed one.
    # The NLA fork counts samples in a mini batch: 128 prompts of 5.
    mine = {"overrides": {"actor_rollout_ref.actor.ppo_mini_batch_size": 640}}
    findings, _ = launch(tmp_path, in_fork(fork, entrypoint=entrypoint), mine)
    assert set(findings) <= {"RLX402", "RLX013"}


def test_a_configuration_of_its_own_has_keys_of_its_own(tmp_path: Path, fork: Path) -> None:
    path = fork / "verl/trainer/config/runs/small/rl.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "# @package _global_\ndefaults: [/ppo_trainer, _self_]\nnla: {injection: {mode: add}}\n", encoding="utf-8"
    )
    own = {"overrides": {"nla.injection.mode": "replace", "trainer.noise_injection.log_changes": True}}
    assert launch(tmp_path, in_fork(fork, config_name="runs/small/rl"), own)[0] == {}
    assert "nla.injection.mode" in launch(tmp_path, in_fork(fork), own, code=2)[1]


def test_the_configuration_of_the_program_that_starts_is_asked_for_as_well(tmp_path: Path, fork: Path) -> None:
    """DAPO's lies beside its program, and finds verl's own by Hydra's search path."""
    config = fork / "recipe/dapo/config"
    config.mkdir(parents=True)
    (config.parent / "main_dapo.py").touch()
    (config / "dapo_trainer.yaml").write_text(
        "hydra: {searchpath: ['file://verl/trainer/config']}\ndefaults: [ppo_trainer, _self_]\n"
        "data: {gen_batch_size: 1}\nalgorithm: {filter_groups: {enable: false, metric: null, max_num_gen_batches: 0,"
        " _target_: x, own: 1}}\n",
        encoding="utf-8",
    )
    keys = {"data.gen_batch_size": 128, "algorithm.filter_groups.own": 2, "trainer.noise_injection.log_changes": True}
    mine = {"overrides": keys}
    dapo = in_fork(fork, trainer="dapo")
    assert not {"RLX010", "RLX229", "RLX403"} & set(launch(tmp_path, dapo, mine)[0])
    _, complaint = launch(tmp_path, dapo, {"overrides": {"algorithm.filter_groups.won": 2}}, code=2)
    assert "RLX010" in complaint and "algorithm.filter_groups.won" in complaint


@pytest.mark.parametrize(
    ("backend", "fact"),
    [
        ({"python": "/nowhere/python3"}, "/nowhere/python3"),
        ({"workdir": "/nowhere"}, "/nowhere"),
        ({"entrypoint": "verl.trainer.main_nobody"}, "verl.trainer.main_nobody"),
        ({"entrypoint": "nobody.py"}, "nobody.py"),
    ],
)
def test_what_would_fail_at_once_is_refused(backend: dict[str, str], fact: str, tmp_path: Path) -> None:
    complaint = launch(tmp_path, PLAIN, {"backend": backend}, code=2)[1]
    (line,) = (line for line in complaint.splitlines() if "RLX403" in line)
    assert fact in line


def test_an_interpreter_without_verl_is_refused_unless_something_else_starts(tmp_path: Path) -> None:
    python, _ = counting_python(tmp_path, f'exec "{sys.executable}" -S "$@"')
    alone = {"backend": {"version": "0.7.1", "python": str(python)}}
    assert "RLX403" in launch(tmp_path, alone, code=2)[1]
    (tmp_path / "train.py").touch()
    findings, _ = launch(tmp_path, alone, {"backend": {"entrypoint": "train.py", "workdir": str(tmp_path)}})
    assert "verl 0.7.1" in findings["RLX404"]["message"]


def test_a_tree_is_fetched_once(tmp_path: Path) -> None:
    python, calls = counting_python(tmp_path)
    here = {"backend": {"version": INSTALLED, "python": str(python)}}
    arms = {"arms": {"one": {}, "two": {"train": {"lr": 1.0e-6}}}, "control": "one"}
    launch(tmp_path, here, arms)
    assert questions(calls) == ["look", "pack"]
    launch(tmp_path, here)
    assert questions(calls) == ["look", "pack", "look"]


def test_planning_for_this_machine_looks_at_nothing(tmp_path: Path) -> None:
    python, calls = counting_python(tmp_path)
    launch(tmp_path, {"backend": {"version": "0.7.1", "python": str(python)}})
    calls.unlink()
    rlx("plan", str(tmp_path / "recipe.yaml"))
    assert not calls.exists()


def test_nothing_of_the_fork_is_executed(tmp_path: Path, fork: Path) -> None:
    evil = fork / "verl/trainer/config/ppo_trainer.yaml"
    evil.write_text(
        evil.read_text(encoding="utf-8") + f"bad: !!python/object/apply:os.system ['touch {tmp_path}/executed']\n",
        encoding="utf-8",
    )
    findings, _ = launch(tmp_path, in_fork(fork))
    assert "RLX404" in findings
    assert not (tmp_path / "executed").exists()


BOMB = "a: &a {x: 1, y: 2, z: 3, v: 4, w: 5, u: 6, t: 7, s: 8, r: 9, q: 0}\n" + "".join(
    f"{name}: &{name} {{{', '.join(f'{key}: *{before}' for key in 'xyzvwutsrq')}}}\n"
    for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    "text",
    ["trainer: [", "- a list\n", "\x00", "a: &a {b: *a}\n", "[" * 5000, "- " * 200_000, BOMB],
    ids=["torn", "list", "nul", "circle", "deep", "abyss", "bomb"],
)
def test_a_broken_tree_is_no_table(text: str, tmp_path: Path, fork: Path) -> None:
    (fork / "verl/trainer/config/_generated_ppo_trainer.yaml").write_text(text, encoding="utf-8")
    findings, _ = launch(tmp_path, in_fork(fork))
    assert "verl 0.7.1" in findings["RLX404"]["message"]


def test_what_looks_like_a_date_is_a_word_as_for_hydra(tmp_path: Path, fork: Path) -> None:
    (fork / "verl/trainer/config/_generated_ppo_trainer.yaml").write_text("a: 2024-99-99\n", encoding="utf-8")
    assert "RLX404" not in launch(tmp_path, in_fork(fork))[0]


@pytest.mark.parametrize(
    "defaults",
    ["5", "[3, null, [a]]", "[ppo_trainer]", "[../../../../etc/passwd]", f"[{'a' * 300}]", "[{a: {b: c}}]", "['\\0']"],
)
def test_strange_defaults_lists_do_no_harm(defaults: str, tmp_path: Path, fork: Path) -> None:
    path = fork / "verl/trainer/config/ppo_trainer.yaml"
    path.write_text(f"defaults: {defaults}\n", encoding="utf-8")
    assert set(launch(tmp_path, in_fork(fork))[0]) <= {"RLX404"}


def archive(*entries: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for entry in entries:
            tar.addfile(entry, io.BytesIO(b"x" * entry.size))
    return buffer.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, size: int = 1) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.size = kind, size if kind == tarfile.REGTYPE else 0
    made.linkname = "/etc/passwd" if kind != tarfile.REGTYPE else ""
    return made


HOSTILE = {
    "absolute": archive(entry("/tmp/rlx-escaped.yaml")),
    "parent": archive(entry("../escaped.yaml")),
    "inner-parent": archive(entry("a/../../../escaped.yaml")),
    "symlink": archive(entry("a.yaml", tarfile.SYMTYPE)),
    "hardlink": archive(entry("a.yaml", tarfile.LNKTYPE)),
    "device": archive(entry("a.yaml", tarfile.CHRTYPE)),
    "fifo": archive(entry("a.yaml", tarfile.FIFOTYPE)),
    "no-yaml": archive(entry("a.py")),
    "control-character": archive(entry("a\x1b[31m.yaml")),
    "huge": archive(entry("a.yaml", size=9 * 1024**2)),
    "many": archive(*(entry(f"{number}.yaml") for number in range(2001))),
    "other-content": archive(entry("ppo_trainer.yaml")),
    "torn": archive(entry("a.yaml"))[:40],
    "no-tar": b"nonsense",
    "nothing": b"",
}


def looked(folder: Path, answer: str, packed: bytes = b"") -> Installation:
    """What rlx makes of a host that answers like that."""
    (folder / "look").write_text(answer, encoding="utf-8")
    (folder / "pack").write_bytes(packed)
    look = InstallationQuestion(f'cat "{folder}/$1"', "verl", "verl.trainer.main_ppo", "python3", None)
    return find_installation(local_site(), look, folder / "home/trees")


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_is_refused(case: str, tmp_path: Path) -> None:
    answer = {"package": "/verl", "version": "0.9.1", "entrypoint": True, "model": "", "files": 1, "digest": "0" * 64}
    found = looked(tmp_path, "rlx-tree\n" + json.dumps(answer), config_tree.MARK + HOSTILE[case])
    assert found.folder is None
    assert found.problem
    assert found.problem.isprintable()
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []
    assert not (tmp_path / "home/escaped.yaml").exists()
    assert not Path("/tmp/rlx-escaped.yaml").exists()


@pytest.mark.parametrize(
    "answer", ["", "rlx-tree\n", "rlx-tree\n[]", "rlx-tree\n{}", "noise", "rlx-tree\n" + "[" * 9999, "rlx-tree\n5"]
)
def test_a_senseless_answer_is_no_tree(answer: str, tmp_path: Path) -> None:
    found = looked(tmp_path, answer)
    assert found.problem
    assert found.folder is None


@pytest.mark.parametrize("digest", ["../../x", None, 5, "A" * 64, ["0"]])
def test_a_senseless_digest_names_no_folder(digest: Any, tmp_path: Path) -> None:
    answer = {"package": "/verl", "version": "0.9.1", "entrypoint": True, "model": "", "files": 1, "digest": digest}
    assert looked(tmp_path, "rlx-tree\n" + json.dumps(answer)).problem


def test_noise_before_the_answer_is_no_harm(tmp_path: Path) -> None:
    python, _ = counting_python(tmp_path, "echo welcome; printf '\\377\\n'")
    assert launch(tmp_path, {"backend": {"version": INSTALLED, "python": str(python)}})[0] == {}


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file", encoding="utf-8")
    document = tmp_path / "x"
    document.mkdir()
    complaint = launch(document, PLAIN, code=1)[1]
    assert str(tmp_path / "home") in complaint and "  fix: " in complaint


def test_the_models_own_shape_counts_where_it_is(tmp_path: Path) -> None:
    """A folder called like one model with the config.json of another."""
    model = tmp_path / "Qwen2.5-0.5B"
    model.mkdir()
    large = {
        "model_type": "qwen2",
        "hidden_size": 8192,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "intermediate_size": 29568,
        "vocab_size": 152064,
    }
    (model / "config.json").write_text(json.dumps(large), encoding="utf-8")
    looked = find_installation(local_site(), look_at(model), tmp_path / "trees")
    assert json.loads(looked.model) == large
    recipe = load_recipe("starter", ["model.path=/data/Qwen2.5-0.5B", "model.arch=null"]).resolve("baseline")
    assert "RLX300" in {finding.id for finding in check(recipe, Installation("there", model=looked.model))}
    assert "RLX300" not in {finding.id for finding in check(recipe, Installation("there"))}
    (model / "config.json").write_bytes(b"\xff" * 100)
    assert find_installation(local_site(), look_at(model), tmp_path / "trees").model == ""


def look_at(model: Path) -> InstallationQuestion:
    resolved = load_recipe("tiny-cpu", [f"model.path={model}"]).resolve("baseline")
    return load_backend("verl").look(resolved, local_site())


def test_who_comes_second_with_the_same_tree_finds_it_there(tmp_path: Path) -> None:
    files = {"config/trainer.yaml": b"steps: 1\n"}
    folder = tmp_path / "trees" / installations._digest(files)
    for _ in range(2):
        installations._keep(files, folder.name, folder)
    assert (folder / "config/trainer.yaml").read_bytes() == b"steps: 1\n"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
