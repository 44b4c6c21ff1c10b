"""Mutations of the code that judges and compares: which of them does a test notice?

python benchmarks/mutations.py [--number 60] [--seed 1] [--after N] [--only PART_OF_A_PATH]    print the table
python benchmarks/mutations.py --list                                                          only name the mutations

Each mutation is one small change of a module of rlx/evidence or rlx/compare, drawn at random among all that there are,
in a copy of the checkout; the tests of its room run against it until the first fails. A survivor is a change that no
test notices. Exit 1 where one survives that is not in `EQUIVALENT`, where it is said why no test can see it. `--after`
leaves out the first of the drawing, so that a long table can be made in portions.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
COPIED = ("rlx", "tests", "recipes", "templates", "docs", "benchmarks")
# Of a room the tests that see most come first: what they notice needs no other.
ROOMS = {
    "rlx/evidence/diagnosis": ("tests/evidence/diagnosis", "tests/evidence"),
    "rlx/evidence/rehearsed.py": ("tests/evidence/test_rehearsed.py", "tests/evidence"),
    "rlx/evidence": ("tests/evidence/test_cases.py", "tests/evidence/test_judge.py", "tests/evidence"),
    "rlx/compare": ("tests/compare", "tests/report"),
}
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
BOOLEANS = {ast.And: ast.Or, ast.Or: ast.And}
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
CALLS = {
    "any": "all", "all": "any", "min": "max", "max": "min", "invalid": "unverified", "incomplete": "unverified",
    "unverified": "invalid",
}  # fmt: skip
EQUIVALENT = {
    "rlx/compare/align.py: abs(value) < _BEYOND -> abs(value) <= _BEYOND": (
        "the border is beyond every scale, and no value lies on it"
    ),
}
"""Name of a mutation -> why it changes nothing that anybody sees."""
LIMIT_S = 900
WIDTH = 90


@dataclass(frozen=True, slots=True)
class Mutation:
    """Give the attribute `attribute` of one node of a module's syntax tree another value.

    `node`: its place in the order of `ast.walk`. `before`, `after`: how its expression reads.
    """

    path: str
    line: int
    node: int
    attribute: str
    value: object
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.path}: {self.before} -> {self.after}"

    def source(self) -> str:
        """Write the module with this change."""
        tree = ast.parse((REPOSITORY / self.path).read_bytes())
        setattr(list(ast.walk(tree))[self.node], self.attribute, self.value)
        return ast.unparse(ast.fix_missing_locations(tree))


def mutations_of(path: Path) -> Iterator[Mutation]:
    """List the mutations of a module."""
    for place, node in enumerate(ast.walk(ast.parse(path.read_bytes()))):
        for attribute, value in changes(node):
            before, original = ast.unparse(node), getattr(node, attribute)
            setattr(node, attribute, value)
            after = ast.unparse(ast.fix_missing_locations(node))
            setattr(node, attribute, original)
            name = str(path.relative_to(REPOSITORY))
            yield Mutation(name, getattr(node, "lineno", 0), place, attribute, value, before, after)


def changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    """List what may be changed of a node: an attribute and its new value."""
    match node:
        case ast.Compare(ops=ops):
            for at, each in enumerate(ops):
                yield "ops", [*ops[:at], COMPARISONS[type(each)](), *ops[at + 1 :]]
        case ast.BoolOp(op=op):
            yield "op", BOOLEANS[type(op)]()
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS and not (
            is_text(left) or is_text(right)
        ):
            yield "op", OPERATORS[type(op)]()
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "operand", ast.UnaryOp(ast.Not(), operand)
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            yield "func", ast.Name(CALLS[name], ast.Load())
        case ast.Assign(value=ast.Constant(value=float() as number)):
            yield "value", ast.Constant(number * 5)


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def drawn(seed: int, only: str) -> list[Mutation]:
    """All mutations in the order of the drawing; the same for the same seed."""
    paths = [path for room in ("rlx/evidence", "rlx/compare") for path in sorted((REPOSITORY / room).rglob("*.py"))]
    found = [each for path in paths if only in str(path) for each in mutations_of(path)]
    random.Random(seed).shuffle(found)
    return found


def tests_for(mutation: Mutation) -> tuple[str, ...]:
    return next(tests for room, tests in ROOMS.items() if mutation.path.startswith(room))


def first_failure(copy: Path, tests: tuple[str, ...]) -> str:
    """Name the first test that fails in the copy; "" where all pass. A run that does not end fails, too."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider"]
    marks = "not training and not ray and not hosts and not engines"
    try:
        done = subprocess.run(
            [*command, "-m", marks, *tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "the limit of time"
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else "no test can be collected" if done.returncode else ""


def killer(mutation: Mutation, copy: Path) -> str:
    """Name the first test of the room that fails with this change; "" for none."""
    target = copy / mutation.path
    source = target.read_bytes()
    target.write_text(mutation.source())
    try:
        return first_failure(copy, tests_for(mutation))
    finally:
        target.write_bytes(source)


def copy_of_checkout(copy: Path) -> None:
    for name in COPIED:
        shutil.copytree(REPOSITORY / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "Makefile"):
        shutil.copy(REPOSITORY / name, copy)


def shortened(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def judged(mutation: Mutation, copy: Path) -> str:
    """Print one line of the table, and return its first word."""
    began = time.monotonic()
    by = killer(mutation, copy)
    word = "killed" if by else "equivalent" if mutation.name in EQUIVALENT else "SURVIVED"
    why = by or EQUIVALENT.get(mutation.name, "")
    change = f"{shortened(mutation.before)}  ->  {shortened(mutation.after)}"
    print(f"{word:10} {mutation.path}:{mutation.line}: {change}  [{why}; {time.monotonic() - began:.0f} s]", flush=True)
    return word


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--after", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    everything = drawn(options.seed, options.only)
    picked = everything[options.after : options.after + options.number]
    if options.list:
        print("\n".join(f"{each.path}:{each.line}: {each.before}  ->  {each.after}" for each in picked))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        copy_of_checkout(Path(folder))
        for tests in sorted({tests_for(each) for each in picked}):
            if failed := first_failure(Path(folder), tests):
                raise RuntimeError(f"{failed} fails without any mutation")
        words = Counter(judged(each, Path(folder)) for each in picked)
    print(f"{len(picked)} of {len(everything)} mutations: {words['killed']} killed, {words['equivalent']} equivalent, "
          f"{words['SURVIVED']} survived")  # fmt: skip
    return 1 if words["SURVIVED"] else 0


if __name__ == "__main__":
    sys.exit(main())
