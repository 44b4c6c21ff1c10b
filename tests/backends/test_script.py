"""Every value of a launch script reaches the program as it was written, and nothing in it is executed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import UndefinedError

from rlx.backends.shared.shell import on_host
from rlx.backends.verl.backend import VerlScript, interpreter_arguments, render
from rlx.errors import UsageError

WORDS = st.lists(st.text(st.sampled_from("~/ab '\"\\$`(){}!*?;&|<>#\n\té🙂-="), max_size=10), min_size=1, max_size=40)


@settings(deadline=None, max_examples=25)
@given(WORDS)
def test_host_paths_survive_the_shell(words: list[str]) -> None:
    line = "printf '%s\\0' " + " ".join(on_host(word) for word in words)
    done = subprocess.run(
        ["bash", "-c", line], env={"HOME": "/h o"}, capture_output=True, text=True, check=True, encoding="utf-8"
    )
    expanded = [f"/h o/{word[2:]}" if word.startswith("~/") else word for word in words]
    assert done.stdout.split("\0")[:-1] == expanded


@settings(deadline=None, max_examples=25)
@given(WORDS)
def test_environment_and_arguments_survive_the_shell(words: list[str]) -> None:
    script = VerlScript(
        title="t",
        device="cpu",
        python="python3",
        program=("-m", "x"),
        arguments=words,
        workdir=None,
        model="/models/tiny",
        data_files=(),
        env={f"V{i}": word for i, word in enumerate(words)},
        path_prefix=(),
    )
    places = "RLX_RUN_DIR=/ RLX_ATTEMPT_DIR=/ RLX_RAY_TMP=/\n"
    show = "exec() { shift 4; printf '%s\\0' \"$@\"; env -0; }\npython3() { :; }\n"
    done = subprocess.run(
        ["bash", "-c", places + show + render(script)], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True
    )
    seen = done.stdout.decode().split("\0")
    assert seen[: len(words)] == words
    environment = dict(line.split("=", 1) for line in seen[len(words) : -1])
    assert [environment[f"V{i}"] for i in range(len(words))] == words


def test_a_template_cannot_print_what_does_not_exist() -> None:
    with pytest.raises(UndefinedError):
        render(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("entrypoint", "words"),
    [
        ("verl.trainer.main_ppo", ("-m", "verl.trainer.main_ppo")),
        ("recipe.dapo.main_dapo", ("-m", "recipe.dapo.main_dapo")),
        ("verl/trainer/nla_main.py", ("verl/trainer/nla_main.py",)),
    ],
)
def test_entry_points(entrypoint: str, words: tuple[str, ...]) -> None:
    assert interpreter_arguments(entrypoint) == words


@pytest.mark.parametrize("entrypoint", ["-c", "a b", "a;b", "a.", "main-ppo", "$(id)"])
def test_what_is_no_entry_point_is_refused(entrypoint: str) -> None:
    with pytest.raises(UsageError, match=r"backend\.entrypoint"):
        interpreter_arguments(entrypoint)


def setup_script(*paths: str) -> str:
    return render(
        VerlScript("t", "npu", "python3", ("-m", "x"), (), None, "m", (), {"SAID": "by the recipe"}, (), paths)
    )


def run_script(text: str, home: Path) -> subprocess.CompletedProcess[str]:
    places = "RLX_RUN_DIR=/ RLX_ATTEMPT_DIR=/ RLX_RAY_TMP=/\n"
    show = 'exec() { echo "$SAID, $ONLY"; }\npython3() { :; }\n'
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
    command = ["bash", "-c", places + show + text]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, encoding="utf-8")


def test_setup_scripts_are_sourced_before_the_rest(tmp_path: Path) -> None:
    # Like CANN's: reads what is not set, and ends with an error status.
    (tmp_path / "set $env.sh").write_text('export SAID="by the host $NOT_SET" ONLY=here\nfalse\n', encoding="utf-8")
    done = run_script(setup_script("~/set $env.sh"), tmp_path)
    assert (done.stdout, done.returncode) == ("by the recipe, here\n", 0), done.stderr


@pytest.mark.parametrize("path", ["/nowhere/set_env.sh", "~/it's here", "/tmp"])
def test_a_setup_script_that_cannot_be_read_ends_the_run(path: str, tmp_path: Path) -> None:
    done = run_script(setup_script(path), tmp_path)
    assert done.returncode == 1
    assert path.replace("~", str(tmp_path)) in done.stderr


def test_the_script_with_setup_is_clean_for_shellcheck(tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text(setup_script("/a b", "~/c"), encoding="utf-8")
    checker = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run(
        [checker, tmp_path / "launch.sh"], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout
