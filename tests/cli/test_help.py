"""Help: grouped, with examples that are true, as wide as the terminal."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, get_type_hints

import pytest
import typer
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from rlx.cli.frame.app import _about, command_line
from rlx.cli.frame.commands import ALIASES, EXAMPLES, GROUPS, expanded
from rlx.cli.frame.options import ARM_LIST, HOST_LIST, NUMBER_LIST
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
        assert own is not None or name in ("hosts list", "config list")
        LEAVES[name].make_context(name, [*(own or ())])
        options = {option for param in LEAVES[name].params for option in param.opts} | {"--help"}
        # Behind `--` stands what a script gets.
        before = [*own, "--"] if own else ["--"]
        before = before[: before.index("--")]
        assert {word for word in before if word.startswith("-") and word != "-"} <= options


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_options_of_several_numbers_are_those_that_say_so(name: str) -> None:
    declared = get_type_hints(LEAVES[name].callback)
    taking = {param.name for param in LEAVES[name].params if declared[param.name] == list[int] | None}
    assert {param.name for param in LEAVES[name].params if param.metavar == NUMBER_LIST} == taking


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_each_command_shows_its_examples(name: str, wording: SnapshotAssertion) -> None:
    shown = CliRunner().invoke(command_line(), [*name.split(), "--help"]).stdout
    assert [line.strip() for line in shown.splitlines() if line.strip() in EXAMPLES[name]] == list(EXAMPLES[name])
    assert shown == wording


@pytest.mark.parametrize("group", sorted({name.split()[0] for name in LEAVES if " " in name}))
def test_a_group_shows_the_whole_of_its_commands(group: str) -> None:
    shown = CliRunner().invoke(command_line(), [group, "--help"]).stdout
    assert "..." not in shown.partition("Commands:")[2]


def test_options_of_lists_are_those_that_say_so() -> None:
    taking = {
        metavar: {name for name, leaf in LEAVES.items() if any(param.metavar == metavar for param in leaf.params)}
        for metavar in (ARM_LIST, HOST_LIST)
    }
    assert taking[ARM_LIST] == {"plan", "launch", "run", "aqn schedule"}
    data = {"data check", "data gsm8k", "data tiny-cpu"}
    assert taking[HOST_LIST] == {"plan", "launch", "run", "status", "queue", "prune", *data}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *(
            (f"{group} {alias}".strip(), meant)
            for group, aliases in ALIASES.items()
            for alias, meant in aliases.items()
        ),
        ("-q ps", "status"),
    ],
)
def test_an_alias_shows_the_help_of_its_command_which_names_it(typed: str, meant: str) -> None:
    *before, alias = typed.split()
    command = meant.split()[0]
    shown = rlx(*typed.split(), "--help").stdout
    if command in ("--version", "--help"):
        return
    before = [word for word in before if word != "-q"]
    assert shown == rlx(*before, command, "--help").stdout == rlx("help", *before, alias).stdout
    assert re.search(rf"\b{alias}\b", shown.partition("Aliases:")[2].partition("Examples:")[0])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("top -v", "status --watch -v"),
        ("-q ps aqn", "-q status aqn"),
        ("help", "--help"),
        ("help data gsm8k", "data gsm8k --help"),
        ("logs run", "logs run"),
        ("version", "--version"),
        ("", ""),
    ],
)
def test_what_an_alias_stands_for(typed: str, meant: str) -> None:
    assert expanded(typed.split()) == meant.split()


def test_aliases_do_what_their_commands_do() -> None:
    assert rlx("version").stdout == rlx("--version").stdout
    assert rlx("help").stdout == rlx("--help").stdout
    assert rlx("ps", "--json").stdout == rlx("status", "--json").stdout
    assert "run what?" in rlx("run", "--seed", "1,2", code=2).stderr
    assert "stop what?" in rlx("kill", code=2).stderr
    assert "stop what?" in rlx("cancel", code=2).stderr


def test_an_alias_is_no_command_of_its_own() -> None:
    for group, aliases in ALIASES.items():
        assert not {f"{group} {alias}".strip() for alias in aliases} & LEAVES.keys()
        assert not aliases.keys() & {*GROUPS["Common"]}


SUGGESTED = {
    **dict.fromkeys(("stpo", "sotp", "stopp", "sto", "stip", "kil", "killl", "cancl", "cancle"), ()),
    **dict.fromkeys(("rmm", "r", "rum", "pru", "prun", "prine", "purge", "delete", "clean", "end", "remove"), ()),
    **dict.fromkeys(("rety", "retri", "wave", "weive", "abort", "destroy"), ()),
    **dict.fromkeys(("hosts remov", "hosts stop", "hosts trus", "hosts delete"), ()),
    "stauts": ("status",),
    "statsu": ("status",),
    "lanch": ("launch",),
    "luanch": ("launch",),
    "lauch": ("launch",),
    "rnu": ("run",),
    "valdate": ("validate",),
    "plann": ("plan",),
    "compre": ("compare",),
    "diagnos": ("diagnose",),
    "explian": ("explain",),
    "atach": ("attach",),
    "doctr": ("doctor",),
    "pulll": ("pull",),
    "hosts strt": ("start",),
    "hosts lst": ("list", "ls"),
    "hosts ad": ("add",),
    "data chek": ("check",),
}
"""By what is mistyped, what may be meant: nothing where that may end or delete something, or begin it again."""


@pytest.mark.parametrize("typed", SUGGESTED)
def test_what_is_suggested_for_a_mistyped_command(typed: str) -> None:
    done = rlx(*typed.split(), code=2)
    suggested = re.findall(r"'([\w-]+)'", done.stderr.partition("Did you mean")[2])
    assert tuple(suggested[: len(SUGGESTED[typed])]) == SUGGESTED[typed]
    assert bool(suggested) == bool(SUGGESTED[typed])
    assert not {*suggested} & {"stop", "rm", "prune", "remove", "retry", "waive", "trust", "kill", "cancel"}


@pytest.mark.parametrize(
    ("typed", "wrong", "fix"),
    [
        ("lanch", "No such command 'lanch'.", "rlx -h lists the commands"),
        ("hosts lst", "No such command 'lst'.", "rlx hosts -h lists the commands"),
        ("compare nope", "TREATMENT is missing: rlx compare CONTROL TREATMENT...", "rlx compare baseline aqn"),
        ("status --nope", "No such option: --nope", "rlx status -h lists the options"),
    ],
)
def test_an_error_about_the_command_line_is_two_lines_as_any_other(typed: str, wrong: str, fix: str) -> None:
    error, hint = rlx(*typed.split(), code=2).stderr.splitlines()
    assert error.startswith(f"rlx: {wrong}") and hint.startswith("  fix: ") and fix in hint
    answer = json.loads(rlx(*typed.split(), "--json", code=2).stdout)
    assert answer["error"].startswith(wrong) and fix in answer["hint"] and answer["exit"] == 2


def test_an_exit_code_stands_on_one_line_with_its_meaning() -> None:
    codes = rlx("--help").stdout.partition("Exit codes: ")[2]
    assert "\u00a0" not in codes
    for line in codes.strip().splitlines():
        assert all(re.match(r"\d+ \w", each.strip()) for each in line.strip().removesuffix("·").split("·"))


def test_a_shell_shows_the_sentence_of_the_help() -> None:
    listed = {name: command for name, command in typer.main.get_command(command_line()).commands.items()}  # type: ignore[attr-defined]
    for name, command in listed.items():
        about = _about(name)
        assert f"{about[0].upper()}{about[1:]}" == command.get_short_help_str(200)


def test_one_screen_of_common_commands_with_a_line_each() -> None:
    assert len(GROUPS["Common"]) == 15
    listed = rlx("--help").stdout.partition("Common:")[2].partition("Exit codes:")[0]
    assert all(line[:15].strip() for line in listed.splitlines() if line.strip())


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
    assert "\x1b[1mCommon:" in on_terminal("--help", NO_COLOR="").written
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
