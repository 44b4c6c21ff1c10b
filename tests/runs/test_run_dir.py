"""The layout of a run directory is spelled in one Python module and one shell part, and both say the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlx.model import run_dir
from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "rlx"
PAYLOAD = PACKAGE / "payload"
LAYOUT = PAYLOAD / "supervise/05-layout.sh"
NAMES = {name: value for name, value in vars(run_dir).items() if isinstance(value, str) and name.isupper()}
SEGMENTS = frozenset(NAMES.values()) | {"hydra", ".hydra"}
# These mean a file of a run directory wherever they stand, the others only in a path.
CERTAIN = frozenset(name for name in SEGMENTS if "." in name)
# What runs on the host without rlx spells the names itself. The folder of such files in rlx is no run directory's.
ON_THE_HOST = {
    "contained_ray.py": {"*/ray_jobs.jsonl", "ray_jobs.jsonl", "events", "log"},
    "ray_api.py": {"/stop", "/supervise.sh"},
    "ray_jobs.py": {
        *("ray_jobs.jsonl", "state/ray_jobs", "state/ray_tmp", "state/script", "attempts", "attempts/*"),
    },
    "rlx_eval.py": {"metrics.jsonl", "validation"},
    "rlx_eval_checkpoint.py": {"metrics.jsonl", "checkpoints", "log"},
    "rlx_trl_records.py": {"metrics.jsonl"},
    "rlx_trl_train.py": {"checkpoints", "hydra/.hydra/config.yaml"},
}
IN_TEMPLATES = {"payload", "metrics.jsonl", "provenance.json"}
PYTHON = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if "payload" not in path.parts and path not in (PACKAGE / "model/run_dir.py", PACKAGE / "resources.py")
)
BESIDE = [PAYLOAD / name for name in ("logs.sh", "mirror.sh", "prune.sh")]
OF_SCHEDULERS = (PACKAGE / "schedulers").glob("*/payload/[0-9]*.sh")
SHELL = sorted([*set((PAYLOAD / "supervise").glob("*.sh")) - {LAYOUT}, *BESIDE, *OF_SCHEDULERS])
ASSIGNED = re.compile(r"^([A-Z_]+)='?([^\s']+)'?$", re.MULTILINE)


def test_the_shell_part_says_the_same() -> None:
    spelled = dict(ASSIGNED.findall(LAYOUT.read_text(encoding="utf-8")))
    assert spelled == {name: NAMES.get(name) for name in spelled}
    assert len(spelled) > 20


def test_no_other_module_spells_a_name() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PYTHON}
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text!r}" for path in PYTHON for line, text in spelled_in(trees[path])
    ]
    assert found == [], f"use the names of {run_dir.__name__}"


def test_no_other_script_spells_a_name() -> None:
    names = "|".join(map(re.escape, sorted(SEGMENTS, key=len, reverse=True)))
    in_path = re.compile(rf"(?:\}}|\$[A-Za-z_]\w*|\$\d|\*)\"?/(?:{names})(?![\w$-])")
    for script in SHELL:
        lines = re.sub(r"^\s*#.*$", "", script.read_text(encoding="utf-8"), flags=re.MULTILINE).splitlines()
        # Of a run, `devices` is a file. The folder of that name belongs to the leases of a host.
        found = [line.strip() for line in lines if in_path.search(re.sub(r'/devices(?=/|")', "", line))]
        assert found == [], script


def test_what_runs_on_the_host_spells_the_same_names() -> None:
    modules = [path for path in PACKAGE.rglob("*.py") if "payload" in path.parts]
    found = {path.name: {text for _, text in spelled_in(ast.parse(path.read_text("utf-8")))} for path in modules}
    assert {name: texts for name, texts in found.items() if texts} == ON_THE_HOST
    templates = "".join(path.read_text("utf-8") for path in (REPOSITORY / "templates").glob("*.j2"))
    named = set(re.findall(r"\$RLX_(?:RUN|ATTEMPT)_DIR/([\w.-]+)", templates))
    assert named & SEGMENTS == IN_TEMPLATES


def spelled_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    in_paths = {node.right for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)}
    in_paths |= {node.args[0] for node in ast.walk(tree) if is_file(node) and isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node in docstrings:
            continue
        if names_a_file(node.value, is_path=node in in_paths, is_part=node in parts):
            yield node.lineno, node.value


def is_file(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "PlannedFile"


def names_a_file(text: str, *, is_path: bool, is_part: bool) -> bool:
    """Whether it is a path, or part of one, in a run directory: no sentence, no path of rlx itself or of a machine."""
    segments = set(text.split("/"))
    if re.search(r"\s", text) or text.startswith(("rlx/", "tests/")) or (text.startswith("/") and not is_part):
        return False
    return bool(segments & (SEGMENTS if is_path or "/" in text else CERTAIN))
