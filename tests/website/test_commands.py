"""Each command that the README and the tutorials give is one, and each output that they show is what it prints."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from rlx.api.demo import variables
from rlx.cli.frame.app import command_line
from rlx.cli.frame.commands import expanded
from tests.cli.support import rlx
from tests.cli.test_help import LEAVES
from tests.conftest import REPOSITORY
from tests.website.pages import CHINESE, ENGLISH, FOR_USERS, PAIRS, commands, console, mentioned, quoted, typed
from tests.website.parse_commands import fault_of

pytestmark = pytest.mark.slow

SHOWN = [name for name in PAIRS if console(ENGLISH[name])]
GROUPS_OF_COMMANDS = {name.split()[0] for name in LEAVES if " " in name}
SCRIPT = "#!/bin/bash\npython3 -m verl.trainer.main_ppo trainer.total_epochs=2\n"


@pytest.mark.parametrize("page", FOR_USERS, ids=lambda page: page.stem)
def test_the_program_understands_each_command(page: Path) -> None:
    """tests/test_packaging.py asks the installed program, too."""
    top = typer.main.get_command(command_line())
    assert {line: fault for line in typed(page) if (fault := fault_of(line, top))} == {}


@pytest.mark.parametrize("page", FOR_USERS, ids=lambda page: page.stem)
def test_a_command_that_a_sentence_names_has_the_options_that_it_names(page: Path) -> None:
    for command in mentioned(page):
        words = expanded(re.split(r"[;,(]", command)[0].replace("'", " ").split()[1:])
        own = next((own for own in (" ".join(words[:2]), words[0]) if own in LEAVES), None)
        assert own or words[0] in GROUPS_OF_COMMANDS, command
        options = {option for param in LEAVES[own].params for option in param.opts} if own else set()
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= {*options, "--help"} or not own, command


@pytest.mark.parametrize("page", [*FOR_USERS, REPOSITORY / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_make_has_each_target_that_a_page_names(page: Path) -> None:
    code = "\n".join(re.findall(r"(?ms)^```.*?^```$|^ {4}.*?$|`[^`]+`", page.read_text(encoding="utf-8")))
    targets = re.findall(r"(?m)^([a-z][a-z-]*):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"))
    assert set(re.findall(r"(?m)(?:^ *|&& |`)make ([a-z][a-z-]*)", code)) <= set(targets)


@pytest.mark.parametrize("name", PAIRS)
def test_both_languages_give_the_same_commands_and_outputs(name: str) -> None:
    assert commands(CHINESE[name]) == commands(ENGLISH[name])
    assert console(CHINESE[name]) == console(ENGLISH[name])
    assert quoted(CHINESE[name]) == quoted(ENGLISH[name])


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "shown"
    rlx("demo", "--to", str(folder))
    return folder


@pytest.fixture
def _reader(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who has typed `rlx demo`, in a folder with the files that the pages speak of."""
    for part in demo.iterdir():
        (shutil.copytree if part.is_dir() else shutil.copy)(part, tmp_path / part.name)
    for variable, value in variables(tmp_path).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    Path("run_grpo.sh").write_text(SCRIPT, encoding="utf-8")
    (log,) = tmp_path.glob("root/runs/no-noise-aqn-*/attempts/1/log")
    shutil.copy(log, "old-aqn.log")
    Path("docs").symlink_to(REPOSITORY / "docs")


@pytest.mark.usefixtures("_reader")
@pytest.mark.parametrize("name", SHOWN)
def test_the_pages_show_what_the_commands_print(name: str) -> None:
    ended = 0
    for command, lines in console(ENGLISH[name]):
        if command == "echo $?":
            assert lines == [str(ended)]
            continue
        done = rlx(*shlex.split(command)[1:], code=None)
        ended = done.returncode
        assert re.fullmatch(_pattern(lines), done.stdout.rstrip() + "\n"), f"{command}\n{done.stdout}\n{done.stderr}"


def _pattern(lines: list[str]) -> str:
    """Any lines where the page shows `…` alone, any words where a line ends with it."""
    return "".join(_line(line) for line in lines)


def _line(line: str) -> str:
    if line == "…":
        return r"(?:.*\n)*?"
    ending = ".*" if line.endswith("…") else " *"
    return re.escape(line.removesuffix("…").rstrip()) + ending + r"\n"


def test_the_readme_shows_what_rlx_demo_prints(tmp_path: Path) -> None:
    from website.pictures import PICTURES, drawn, typed_and_written

    assert drawn(typed_and_written(tmp_path / "demo")) == (PICTURES / "terminal.svg").read_text(encoding="utf-8")


def _lines_of(page: Path) -> Iterator[str]:
    return iter(page.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("page", [ENGLISH["README"], CHINESE["README"]], ids=["en", "zh"])
def test_the_readme_is_one_page(page: Path) -> None:
    assert sum(1 for line in _lines_of(page) if line) < 100
