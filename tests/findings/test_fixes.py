"""Fixes are tried as far as this machine can: names in them exist, settings are valid, command lines parse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
import typer

from rlx.cli.frame.app import command_line
from rlx.cli.frame.commands import COMMANDS
from rlx.errors import UsageError
from rlx.findings import finding_ids, finding_row
from rlx.recipe import bundled_recipes, editor_schema, load_recipe
from tests.conftest import REPOSITORY

FIXES = {id: finding_row(id).en.fix for id in finding_ids()}
DOTTED = re.compile(r"(?<![\w./…-])\+?([a-z][a-z_0-9]*(?:\.[A-Za-z_0-9]+)+)(?![\w(/])")
QUOTED = re.compile(r"`([^`]+)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
SUBCOMMANDS = r"(?: (?:add|check|gsm8k|list|start)\b)?"
COMMAND = re.compile(rf"(?<![\w-])rlx ((?:{'|'.join(COMMANDS)})\b{SUBCOMMANDS}(?: (?:[A-Z]+\b|--?[a-z][\w-]*|…))*)")
"""A command line, with placeholders and options; the sentence may go on after it."""
PLACEHOLDERS = {"RECIPE": "tiny-cpu", "N": "3", "…": "tensorboard", "HOST": "a3", "RUN": "aqn"}
OWN_KEY = re.compile(r"override|verl[:'’]|MindSpeed-RL's|TRL's|\+")
"""What a fix says beside a key of a trainer whose first word is also a section of a recipe."""
OF_FORKS = {
    "critic.output_layer_index": "the NLA fork of verl",
    "ray_kwargs.resource_pool.actor_rollout.num_gpus": "the NLA fork of verl",
    "trainer.noise_injection": "a fork of verl with its own noise",
}
FILES = {
    "config.json": "of a model",
    "set_env.sh": "of CANN",
    "gres.conf": "of Slurm",
    "raylet.err": "of Ray",
    "gcs_server.out": "of Ray",
    "nla_main.py": "of the NLA fork of verl",
    "core_r0.16.0": "a tag of Megatron",
}
OF_OTHER_PROGRAMS = {
    "docker": {"--device", "--init", "--ipc", "--network", "--pids-limit", "--shm-size", "--ulimit"},
    "pip": {"--force-reinstall"},
    "ray": {"--port", "--resources"},
}
NOT_TRIED = {
    r"\b(?:HCCL|ASCEND|VLLM|PYTORCH|NCCL|CUDA|GLOO|RAY|OMP|MASTER|LD|TASK)_[A-Z_a-z]+|\bTMPDIR": (
        "variables of programs that are not here: RLX450 RLX453 RLX458 RLX588 RLX805 RLX806 RLX807 RLX808 RLX809 "
        "RLX810 RLX815 RLX818 RLX820 RLX837 RLX838 RLX843 RLX852 RLX855 RLX880 RLX952 RLX957 RLX958 RLX960 "
        "RLX962 RLX963"
    ),
    r"\bdocker\b|--(?:ipc|shm-size|ulimit|device|init|network|pids-limit)\b": (
        "options of containers: RLX506 RLX523 RLX524 RLX525 RLX526 RLX533 RLX589 RLX828 RLX878 RLX879 RLX960 RLX963"
    ),
    r"npu-smi|hccn_tool|nvidia-smi|/usr/local/dcmi": "need a device: RLX809 RLX817 RLX830 RLX951 RLX953 RLX967",
    r"\bsinfo\b|\bsacct\b|scontrol|gres": "need Slurm: RLX592 RLX593 RLX594 RLX595 RLX596 RLX598",
    r"dmesg|\bulimit\b|NTP|util-linux|tmux|py-spy|pip |ray (?:start|stop|status)": (
        "need a host: RLX413 RLX510 RLX511 RLX515 RLX526 RLX584 RLX812 RLX814 RLX831 RLX865 RLX879 RLX888 RLX890 "
        "RLX891 RLX956 RLX963 RLX964 RLX966 RLX967"
    ),
}
"""What a pattern finds in fixes can only be tried with an NPU or on a host; the ids are listed."""


GOES_WITH = {
    "eval.post.reward": ["eval.post.rows=/data/validation.parquet"],
    "retry.from_checkpoint": ["retry.times=1"],
    "track.mode": ["track.to=[wandb]"],
}
"""What else a recipe must have before a key can be set."""


@cache
def recipe_keys() -> frozenset[str]:
    schema = editor_schema()

    def walk(node: Mapping[str, Any], prefix: str) -> Iterator[str]:
        if "$ref" in node:
            yield from walk(schema["$defs"][node["$ref"].rpartition("/")[2]], prefix)
        for form in (form for word in ("anyOf", "oneOf", "allOf") for form in node.get(word, ())):
            yield from walk(form, prefix)
        for name, below in node.get("properties", {}).items():
            yield f"{prefix}{name}"
            yield from walk(below, f"{prefix}{name}.")

    return frozenset(walk(schema, ""))


@cache
def trainer_keys() -> frozenset[str]:
    """Every key of a shipped table, and each of its endings: a fix may leave out the first words."""

    def walk(node: Mapping[str, Any], prefix: str) -> Iterator[str]:
        for name, below in node.items():
            yield f"{prefix}{name}"
            if isinstance(below, dict):
                yield from walk(below, f"{prefix}{name}.")

    found = set()
    for path in (REPOSITORY / "rlx/backends").glob("*/keys/**/*.json"):
        for key in walk(json.loads(path.read_text(encoding="utf-8")), ""):
            words = key.split(".")
            ends = range(1, len(words) + 1)
            found |= {".".join(words[start:end]) for end in ends for start in range(end)}
    return frozenset(found)


def is_trainers(name: str) -> bool:
    """MindSpeed-RL's tables have classes in place of sections: there the last word decides."""
    return name in trainer_keys() or name.rpartition(".")[2] in trainer_keys() or name in OF_FORKS


@pytest.mark.parametrize("id", [id for id, fix in FIXES.items() if DOTTED.search(fix)])
def test_keys_that_a_fix_names_are_those_of_a_recipe_or_quoted_as_a_trainers(id: str) -> None:
    sections = {key for key in recipe_keys() if "." not in key}
    for name in DOTTED.findall(FIXES[id]):
        if name in recipe_keys() or name in FILES or name.endswith(".md"):
            continue
        placeholders = re.sub(r"\.[A-Z]+\b.*", "", name)
        assert is_trainers(placeholders) or placeholders in recipe_keys(), f"{name} is a key of nothing"
        if name.partition(".")[0] in sections and name not in OF_FORKS:
            assert OWN_KEY.search(FIXES[id]), f"{name} looks like a key of a recipe, and is a trainer's"


def settings(fix: str) -> Iterator[tuple[str, str]]:
    """Key and value of each `KEY: VALUE` of a recipe in a fix."""
    for quoted in QUOTED.findall(fix):
        key, colon, value = quoted.partition(": ")
        if colon and (key in recipe_keys() or key.partition(".")[0] in {"waive", "env", "overrides"}):
            yield key, value


@pytest.mark.parametrize(
    ("key", "value"), sorted({setting for fix in FIXES.values() for setting in settings(fix)}), ids=str
)
def test_what_a_fix_sets_is_valid_in_some_recipe(key: str, value: str) -> None:
    if re.fullmatch(r"\{\w+(?:, \w+)*\}", value):
        assert {f"{key}.{name}" for name in re.findall(r"\w+", value)} <= recipe_keys()
        return
    value = re.sub(r"\b[A-Z]{5,}\b|…", "x", value)
    problems = set()
    for recipe in bundled_recipes():
        for arm in load_recipe(recipe.path).arms:
            place = "" if arm == "main" or key.startswith("experiment.") else f"arms.{arm}."
            try:
                load_recipe(recipe.path, [*GOES_WITH.get(key, ()), f"{place}{key}={value}"]).resolve(arm)
            except UsageError as error:
                problems.add(error.message)
            else:
                return
    pytest.fail("\n".join(problems))


@cache
def command(words: tuple[str, ...]) -> Any:
    """The command, or group of commands, that the words name, with a context to parse arguments in."""
    found: Any = typer.main.get_command(command_line(words[:1]))
    context = found.make_context("rlx", [], resilient_parsing=True)
    for word in words:
        found = found.get_command(context, word)
        assert found is not None, words
        context = found.make_context(word, [], parent=context, resilient_parsing=True)
    return found, context


COMMAND_LINES = sorted({(id, line) for id, fix in FIXES.items() for line in COMMAND.findall(fix)})


@pytest.mark.parametrize(("id", "line"), COMMAND_LINES, ids=str)
def test_a_command_line_in_a_fix_parses(id: str, line: str) -> None:
    words = line.split()
    name = 2 if len(words) > 1 and re.fullmatch(SUBCOMMANDS, f" {words[1]}") else 1
    found, context = command(tuple(words[:name]))
    given = words[name:]
    options = {option for parameter in found.params for option in parameter.opts}
    assert {word for word in given if word.startswith("-")} <= options
    if any(word in PLACEHOLDERS for word in given):
        # A command alone, or with the name of an option, is a mention; one with arguments is to be typed.
        found.make_context(words[0], [PLACEHOLDERS.get(word, word) for word in given], parent=context.parent)


def test_every_option_in_a_fix_is_one_of_rlx_or_of_a_program_that_is_named() -> None:
    own = set()
    for name in COMMANDS:
        found, context = command((name,))
        names = found.list_commands(context) if hasattr(found, "list_commands") else ()
        leaves = [found, *(found.get_command(context, leaf) for leaf in names)]
        own |= {option for leaf in leaves for parameter in leaf.params for option in parameter.opts}
    others = set().union(*OF_OTHER_PROGRAMS.values())
    unknown = {id: named for id, fix in FIXES.items() if (named := {*OPTION.findall(fix)} - own - others)}
    assert unknown == {}


def test_every_page_in_a_fix_exists() -> None:
    pages = {page for fix in FIXES.values() for page in re.findall(r"(?:docs/|\]\()([\w./-]+\.md)", fix)}
    assert pages and {page for page in pages if not (REPOSITORY / "docs" / page).exists()} == set()


def test_files_of_a_run_in_a_fix_are_those_that_rlx_writes() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "rlx").rglob("*.py"))
    named = {name for fix in FIXES.values() for name in re.findall(r"`(?:payload/)?(aqn\.json|events)/?`", fix)}
    assert named and {name for name in named if f'"{name}"' not in code and f"/{name}" not in code} == set()


@pytest.mark.parametrize("pattern", NOT_TRIED)
def test_fixes_that_need_a_device_or_a_host_are_listed(pattern: str) -> None:
    listed = re.findall(r"RLX\d{3}", NOT_TRIED[pattern])
    assert listed == [id for id, fix in sorted(FIXES.items()) if re.search(pattern, fix)]
