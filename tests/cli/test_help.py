"""Help: grouped, with examples that are true, as wide as the terminal."""

from __future__ import annotations

import re
import shlex
from typing import Any, get_type_hints

import pytest
import typer
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from rlx.cli.frame.app import command_line
from rlx.cli.frame.examples import EXAMPLES
from rlx.cli.frame.help_text import GROUPS
from rlx.cli.frame.number_options import SEVERAL, spelled_out
from tests.cli.support import rlx
from tests.cli.terminal import on_terminal


def leaves(command: Any, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """Every command that does something, by the words that name it."""
    if not hasattr(command, "commands"):
        return {" ".join(words): command}
    return {name: leaf for own, sub in command.commands.items() for name, leaf in leaves(sub, (*words, own)).items()}


LEAVES = leaves(typer.main.get_command(command_line()))


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_each_command_has_two_examples_that_it_understands(name: str) -> None:
    assert len(EXAMPLES[name]) == 2
    for example in EXAMPLES[name]:
        words = shlex.split(example.partition(" > ")[0].partition(" | ")[0])[1:]
        own = words[len(name.split()) :] if words[: len(name.split())] == name.split() else None
        assert own is not None or name == "hosts list"
        LEAVES[name].make_context(name, spelled_out(own or (), LEAVES[name]))
        options = {option for param in LEAVES[name].params for option in param.opts} | {"--help"}
        assert {word for word in own or () if word.startswith("-") and word != "-"} <= options


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_options_of_several_numbers_are_those_that_say_so(name: str) -> None:
    declared = get_type_hints(LEAVES[name].callback)
    taking = {param.name for param in LEAVES[name].params if declared[param.name] == list[int] | None}
    assert {param.name for param in LEAVES[name].params if param.metavar == SEVERAL} == taking


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_each_command_shows_its_examples(name: str, wording: SnapshotAssertion) -> None:
    shown = CliRunner().invoke(command_line(), [*name.split(), "--help"]).stdout
    assert [line.strip() for line in shown.splitlines() if line.strip() in EXAMPLES[name]] == list(EXAMPLES[name])
    assert shown == wording


@pytest.mark.parametrize("group", sorted({name.split()[0] for name in LEAVES if " " in name}))
def test_a_group_shows_the_whole_of_its_commands(group: str) -> None:
    shown = CliRunner().invoke(command_line(), [group, "--help"]).stdout
    assert "..." not in shown.partition("Commands:")[2]


MISTYPED = (
    *("run", "ps", "ls", "list", "top", "kill", "cancel", "delete", "remove", "clean", "exec", "ssh", "end"),
    *(
        "stpo",
        "sotp",
        "stopp",
        "rmm",
        "r",
        "pru",
        "prun",
        "prine",
        "purge",
        "rum",
        "hosts remov",
        "hosts rm",
        "hosts stop",
    ),
)


@pytest.mark.parametrize("typed", MISTYPED)
def test_no_suggestion_for_a_mistyped_command_ends_or_deletes_anything(typed: str) -> None:
    done = rlx(*typed.split(), code=2)
    suggested = set(re.findall(r"'([\w-]+)'", done.stderr.partition("Did you mean")[2]))
    assert not suggested & {"stop", "rm", "prune", "remove"}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("run", "launch"), ("ps", "status"), ("stauts", "status"), ("lanch", "launch"), ("hosts strt", "start")],
)
def test_a_mistyped_command_is_recognised(typed: str, meant: str) -> None:
    assert f"'{meant}'" in rlx(*typed.split(), code=2).stderr


def test_no_example_is_of_a_command_that_is_gone() -> None:
    assert set(EXAMPLES) == set(LEAVES)


def test_help_lists_every_command_in_its_group() -> None:
    out = rlx("--help").stdout
    for title, names in GROUPS.items():
        section = out[out.index(f"{title}:") :].split("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()[1:] if line[:3].rstrip() and line[2] != " "] == list(
            names
        )


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_help_is_as_wide_as_the_terminal(columns: int) -> None:
    for command in ((), ("logs",)):
        lines = on_terminal(*command, "--help", columns=columns).lines
        assert columns - 25 < max(map(len, lines)) <= columns


def test_colour_only_where_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in rlx("--help").stdout
    assert "\x1b[1mRuns:" in on_terminal("--help", NO_COLOR="").written
    assert "\x1b" not in on_terminal("--help", NO_COLOR="1").written


def test_a_short_flag_means_one_thing() -> None:
    meanings: dict[str, set[str]] = {"-q": {"--quiet"}, "-h": {"--help"}}
    for leaf in LEAVES.values():
        for param in leaf.params:
            for short in (option for option in param.opts if option.startswith("-") and not option.startswith("--")):
                meanings.setdefault(short, set()).update(option for option in param.opts if option.startswith("--"))
    assert {short: long for short, long in meanings.items() if len(long) != 1} == {}
    assert meanings["-a"] == {"--all"}


@pytest.mark.parametrize("words", ["-q show tiny-cpu", "show -q tiny-cpu", "show tiny-cpu --quiet", "hosts list -q"])
def test_quiet_stands_anywhere(words: str) -> None:
    if "show" in words:
        assert "arm baseline" in rlx("show", "tiny-cpu").stderr
    assert rlx(*words.split()).stderr == ""
