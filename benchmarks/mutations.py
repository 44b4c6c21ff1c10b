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
import functools
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What the tests need besides rlx is loaded once, and not again for each mutation.
import hypothesis
import numpy  # noqa: F401
import pydantic  # noqa: F401
import pytest
import rich.console  # noqa: F401
import typer.testing  # noqa: F401
import xdist.scheduler  # noqa: F401
import yaml  # noqa: F401

# That a property does not hold is enough; the smallest example of it takes long to find.
hypothesis.settings.register_profile("unshrunk", phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate])
hypothesis.settings.load_profile("unshrunk")

REPOSITORY = Path(__file__).parent.parent
COPIED = ("rlx", "tests", "recipes", "templates", "docs", "benchmarks")
# They look at files only, unlike the others of their folder.
KEPT = ("tests/runs/test_parsed.py", "tests/runs/test_kept.py")
# The tests that see most of a room come first, but for those that import what is changed.
ROOMS = {
    "rlx/evidence/cache": (*KEPT, "tests/evidence"),
    "rlx/evidence/diagnosis": ("tests/evidence/diagnosis", "tests/evidence"),
    "rlx/evidence": ("tests/evidence/test_cases.py", "tests/evidence/test_judge.py", "tests/evidence"),
    "rlx/compare": ("tests/compare/test_comparison.py", "tests/compare/test_items.py", "tests/compare", "tests/report"),
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
    "rlx/compare/alignment.py: abs(value) < _BEYOND -> abs(value) <= _BEYOND": (
        "the border is beyond every scale, and no value lies on it"
    ),
    "rlx/compare/comparison_values.py: min(known) -> max(known)": (
        "n is for the test alone, and there is none where runs differ in n (RLX902); else there is one n to choose from"
    ),
}
"""Name of a mutation -> why it changes nothing that anybody sees."""
LIMIT_S = 900
LIKELY = 3
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


def tests_for(mutation: Mutation, copy: Path) -> tuple[str, ...]:
    """List the files of tests of the module's room: those that import most of what it defines come first."""
    room = next(tests for room, tests in ROOMS.items() if mutation.path.startswith(room))
    files = [
        copy / each
        for tests in room
        for each in ([tests] if tests.endswith(".py") else sorted((copy / tests).rglob("test_*.py")))
    ]
    defined = {
        name
        for node in ast.parse((REPOSITORY / mutation.path).read_bytes()).body
        if (name := getattr(node, "name", ""))
    }
    ordered = sorted(dict.fromkeys(files), key=lambda path: -len(defined & imported(path)))
    return tuple(str(path.relative_to(copy)) for path in ordered)


@functools.cache
def imported(path: Path) -> set[str]:
    """List the names that a file of tests imports from rlx."""
    tree = ast.walk(ast.parse(path.read_bytes()))
    return {
        each.name
        for node in tree
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rlx")
        for each in node.names
    }


def killer(mutation: Mutation, copy: Path, tests: tuple[str, ...]) -> str:
    """Name the first of these tests that fails with this change and passes without it; "" for none."""
    target = copy / mutation.path
    source = target.read_bytes()
    target.write_text(mutation.source(), encoding="utf-8")
    try:
        by = first_failure(copy, tests)
    finally:
        target.write_bytes(source)
    if "::" in by and not passes(by, copy):
        raise RuntimeError(f"{by} fails without any mutation")
    return by


@functools.cache
def passes(test: str, copy: Path) -> bool:
    return not first_failure(copy, (test.partition("[")[0],))


def first_failure(copy: Path, tests: tuple[str, ...]) -> str:
    """Name the first test that fails in the copy; "" where all pass. A run that does not end fails, too.

    The tests run in a fork of this process, which has loaded what they need besides rlx. Raises RuntimeError where
    pytest itself cannot run them.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        child = multiprocessing.get_context("fork").Process(target=run_tests, args=(copy, tests, output.fileno()))
        child.start()
        child.join(LIMIT_S)
        if child.is_alive():
            child.kill()
            child.join()
            return "the limit of time"
        output.seek(0)
        text = output.read()
    if child.exitcode == pytest.ExitCode.OK:
        return ""
    if failed := re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", text, re.MULTILINE):
        return failed[1]
    if child.exitcode == pytest.ExitCode.INTERRUPTED:
        return "no test can be collected"
    raise RuntimeError(f"pytest ended with {child.exitcode}:\n{text[-4000:]}")


def run_tests(copy: Path, tests: tuple[str, ...], output: int) -> None:
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.chdir(copy)
    os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path.insert(0, str(copy))
    sys.dont_write_bytecode = True
    options = ["-x", "-q", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider", f"--basetemp={copy.parent}/tmp"]
    loaded = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    marks = ["-m", f"not training and not ray and not engines{'' if tests[0].startswith(KEPT) else ' and not hosts'}"]
    sys.exit(pytest.main([*options, *loaded, *marks, *tests]))


def copy_of_checkout(copy: Path) -> None:
    for name in COPIED:
        shutil.copytree(REPOSITORY / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "Makefile"):
        shutil.copy(REPOSITORY / name, copy)


def shortened(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def table(picked: list[Mutation], copy: Path) -> Iterator[str]:
    """Print a line for each mutation as soon as it is known, and return the first word of each.

    First the most likely tests of all are run, since collecting the others takes longer; then these, where need be.
    """
    survivors = []
    for each in picked:
        if by := killer(each, copy, tests_for(each, copy)[:LIKELY]):
            yield line("killed", each, by)
        else:
            print(f"{'?':10} {each.path}:{each.line}", file=sys.stderr, flush=True)
            survivors.append(each)
    for each in survivors:
        by = killer(each, copy, tests_for(each, copy)[LIKELY:])
        known = EQUIVALENT.get(each.name, "")
        yield line("killed" if by else "equivalent" if known else "SURVIVED", each, by or known)


def line(word: str, mutation: Mutation, why: str) -> str:
    change = f"{shortened(mutation.before)}  ->  {shortened(mutation.after)}"
    print(f"{word:10} {mutation.path}:{mutation.line}: {change}  [{why}]", flush=True)
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
        copy_of_checkout(copy := Path(folder) / "copy")
        words = Counter(table(picked, copy))
    print(f"{len(picked)} of {len(everything)} mutations: {words['killed']} killed, {words['equivalent']} equivalent, "
          f"{words['SURVIVED']} survived")  # fmt: skip
    return 1 if words["SURVIVED"] else 0


if __name__ == "__main__":
    sys.exit(main())
