"""`--json`: one object on stdout whatever happens, with one name for one thing in all commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import rlx
from tests.cli.test_help import LEAVES
from tests.conftest import CASES, REPOSITORY
from tests.runs.toys import ended, start, toy_plan

RECIPE = str(REPOSITORY / "recipes/tiny-cpu.yaml")
LOG = CASES / "logs/tiny-aqn/log"

WITHOUT = {
    "schema": "is JSON already",
    "watch": "is a window",
    "attach": "is a window",
    "stop": "acts; rlx status --json says what became of it",
    "report": "writes a page; rlx compare --json has its numbers",
    "data tiny-cpu": "acts, and says so by its exit code",
    "hosts add": "acts; rlx hosts show NAME --json says what is there",
    "config set": "acts; rlx config list --json says what counts",
    "config unset": "acts; rlx config list --json says what counts",
    "hosts remove": "acts; rlx hosts list --json says what is left",
    "hosts trust": "asks a person",
}


def test_every_reading_command_has_json() -> None:
    without = {name for name, leaf in LEAVES.items() if not any("--json" in param.opts for param in leaf.params)}
    assert without == set(WITHOUT)


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a document, itself among them."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(item)


def test_verdicts_and_findings_have_the_same_keys_everywhere() -> None:
    runs = [json.loads(rlx("import", str(LOG), "--name", "old", "--arm", arm, "--json").stdout) for arm in "ab"]
    assert {tuple(run)[1:5] for run in runs} == {("run_id", "arm", "seed", "run_dir")}
    documents = {
        words: json.loads(rlx(*words.split(), "--json", code=code).stdout)
        for words, code in {
            "status": 0,
            "wait": 0,
            "metrics a": 0,
            "diagnose a": 0,
            "compare a b": 14,
            f"validate {RECIPE}": 0,
            f"plan {RECIPE} --arm aqn": 0,
        }.items()
    }
    verdicts = {words: verdicts_of(found) for words, found in documents.items() if verdicts_of(found)}
    assert len(verdicts) == 5
    keys = {"status", "dissent", "sentence", "findings"}
    assert [verdict for found in verdicts.values() for verdict in found if not keys <= set(verdict)] == []
    findings = [part for found in documents.values() for part in parts(found) if {"id", "severity"} <= set(part)]
    assert len(findings) > 5
    shape = {"id", "severity", "message", "fix", "where", "step", "waived"}
    assert {frozenset(set(finding) - {"arms"}) for finding in findings} == {frozenset(shape)}


def verdicts_of(document: Any) -> list[dict[str, Any]]:
    found = (part.get("verdict") for part in parts(document))
    return [verdict for verdict in found if isinstance(verdict, dict)]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("status nobody", 12),
        ("wait nobody", 12),
        ("plan nothing.yaml", 2),
        ("launch --plan nothing.json", 2),
        ("compare a b --csv", 2),
        ("hosts show nobody", 2),
        ("explain RLX999", 2),
        ("status --nonsense", 2),
        ("schema", 2),
        ("tag nobody keep", 12),
        ("logs --tail many", 2),
    ],
)
def test_an_error_is_one_object_and_words(words: str, code: int) -> None:
    done = rlx(*words.split(), "--json", code=code)
    answer = json.loads(done.stdout)
    assert set(answer) == {"schema_version", "error", "hint", "exit"}
    assert answer["exit"] == code
    assert answer["error"].splitlines()[0] in " ".join(done.stderr.split()) or answer["error"] in done.stderr


def test_a_wait_whose_time_is_up_answers_in_json() -> None:
    (run,) = start(toy_plan("sleep 300"))
    answer = json.loads(rlx("wait", run.run_id, "--timeout", "1s", "--json", code=11).stdout)
    assert answer["exit"] == 11


def test_words_alone_without_json_or_behind_two_dashes() -> None:
    assert rlx("status", "nobody", code=12).stdout == ""
    assert rlx("status", "--", "--json", code=12).stdout == ""


def test_what_failed_behind_the_answer_adds_no_second_object(tmp_path: Path) -> None:
    for ref in start(toy_plan("echo 1", arm="a"), toy_plan("echo 2", arm="b")):
        ended(ref)
    done = rlx("compare", "a", "b", "--json", "--html", str(tmp_path / "none/x.html"), code=1)
    assert done.stdout == "" or list(json.loads(done.stdout)) != []


NAMES_A_FILE = (
    "launch --plan",
    "launch tiny-cpu --secret-file",
    "validate",
    "plan",
    "show",
    "power",
    "layouts",
    "migrate --engine megatron",
    "diagnose",
    "data check",
    "aqn schedule",
    "aqn schedule tiny-cpu --weights",
    "aqn audit",
    "import --name n",
    "init --from",
)


@pytest.mark.parametrize("command", NAMES_A_FILE)
def test_no_number_of_the_system_reaches_a_person(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights/model.safetensors").mkdir()
    for name in ("none", "weights", "file/inside", "/proc/self/mem"):
        said = rlx_anyhow(*command.split(), str(tmp_path / name))
        assert not re.search("Errno|Traceback", said), said


def rlx_anyhow(*arguments: str) -> str:
    from tests.command import run_rlx

    done = run_rlx(arguments)
    assert done.returncode in (1, 2, 5, 12), (arguments, done)
    return (done.stdout + done.stderr).decode()


def test_commands_order_id_and_severity_alike(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(Path(RECIPE).read_text(encoding="utf-8").replace("group_size:", "group_sise:"), encoding="utf-8")
    heads = re.compile(r"^ *(?:error|warning|note) RLX\d{3} ", re.MULTILINE)
    assert heads.search(rlx("validate", str(recipe), code=2).stdout)
    assert heads.search(rlx("plan", RECIPE, "--arm", "aqn").stdout)
    assert not re.search(r"RLX\d{3} (?:error|warning|note)\b", rlx("validate", str(recipe), code=2).stdout)
