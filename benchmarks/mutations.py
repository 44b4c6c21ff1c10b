"""Mutations of the code that judges and compares: which of them does a test notice?

python benchmarks/mutations.py [--number 60] [--seed 1] [--only PART_OF_A_PATH]    print the table
python benchmarks/mutations.py --list                                              only name the mutations

Each mutation is one small change of a module of rlx/evidence or rlx/compare, in a copy of the checkout; the tests of
that room run against it until the first fails. A survivor is a change that no test notices. Exit 1 where one survives
that is not in `EQUIVALENT`, where it is said why no test can see it.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
COPIED = ("rlx", "tests", "recipes", "templates", "docs", "benchmarks")
ROOMS = {
    "rlx/evidence/charges": ("tests/evidence",),
    "rlx/evidence/judge.py": ("tests/evidence",),
    "rlx/evidence/unplanned.py": ("tests/evidence",),
    "rlx/evidence/reading/noise_records.py": ("tests/evidence",),
    "rlx/compare": ("tests/compare", "tests/report"),
}
COMPARISONS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}  # fmt: skip
BOOLEANS = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
CALLS = {
    "any": "all", "all": "any", "min": "max", "max": "min", "invalid": "unverified", "incomplete": "unverified",
    "unverified": "invalid",
}  # fmt: skip
OPERATORS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")}
EQUIVALENT = {
    "rlx/compare/align.py: < -> <=": "the border is beyond every scale, and no value lies on it",
}
"""Name of a mutation without its line -> why it changes nothing that anybody sees."""
LIMIT_S = 600


@dataclass(frozen=True, slots=True)
class Mutation:
    """Replace the text from `start` to `end` (offsets in bytes) of a module."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str

    @property
    def name(self) -> str:
        return f"{self.path}: {self.old} -> {self.new}"

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]


class Module:
    """The source of a module with the places of its syntax tree in bytes."""

    def __init__(self, path: Path) -> None:
        self._source = path.read_bytes()
        self._name = str(path.relative_to(REPOSITORY))
        self._lines = [0]
        for line in self._source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def mutations(self) -> Iterator[Mutation]:
        """List the mutations of this module."""
        for node in ast.walk(ast.parse(self._source)):
            if found := self._found(node):
                line, start, end, old, new = found
                text = self._source[start:end]
                # What stands there more than once, or in brackets between, is left alone.
                if text.count(old.encode()) == 1:
                    at = start + text.index(old.encode())
                    yield Mutation(self._name, line, at, at + len(old.encode()), old, new)

    def _found(self, node: ast.AST) -> tuple[int, int, int, str, str] | None:
        """The line, the stretch of bytes that holds the token, the token and its replacement."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._between(node.left, node.comparators[0], COMPARISONS[type(node.ops[0])])
        if isinstance(node, ast.BoolOp):
            return self._between(node.values[0], node.values[1], BOOLEANS[type(node.op)])
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return self._between(node.left, node.right, OPERATORS[type(node.op)])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return node.lineno, self._start(node), self._start(node.operand), "not ", ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            return node.lineno, self._start(node.func), self._end(node.func), node.func.id, CALLS[node.func.id]
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and type(node.value.value) is float:
            start, end = self._start(node.value), self._end(node.value)
            return node.lineno, start, end, self._source[start:end].decode(), repr(node.value.value * 5)
        return None

    def _between(self, left: ast.expr, right: ast.expr, tokens: tuple[str, str]) -> tuple[int, int, int, str, str]:
        return left.lineno, self._end(left), self._start(right), *tokens

    def _start(self, node: ast.expr) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr) -> int:
        return self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)


def chosen(number: int, seed: int, only: str) -> list[Mutation]:
    """So many mutations, spread evenly over the modules; the same ones for the same seed."""
    by_module = [
        list(Module(path).mutations())
        for room in ROOMS
        for path in (sorted((REPOSITORY / room).rglob("*.py")) if (REPOSITORY / room).is_dir() else [REPOSITORY / room])
        if only in str(path)
    ]
    draw = random.Random(seed)
    for module in by_module:
        draw.shuffle(module)
    picked: list[Mutation] = []
    while len(picked) < number and any(by_module):
        picked += [module.pop() for module in by_module if module]
    return sorted(picked[:number], key=lambda each: (each.path, each.line))


def tests_for(mutation: Mutation) -> tuple[str, ...]:
    return next(tests for room, tests in ROOMS.items() if mutation.path.startswith(room))


def is_noticed(mutation: Mutation, copy: Path) -> bool:
    """Tell whether some test of the room fails with this change. A run that does not end is noticed, too."""
    target = copy / mutation.path
    source = target.read_bytes()
    target.write_bytes(mutation.applied(source))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    marks = "not training and not ray and not hosts and not engines"
    try:
        done = subprocess.run(
            [*command, "-m", marks, *tests_for(mutation)],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        target.write_bytes(source)
    return done.returncode == 1


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    picked = chosen(options.number, options.seed, options.only)
    if options.list:
        print("\n".join(f"{each.name} (line {each.line})" for each in picked))
        return 0
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            shutil.copytree(REPOSITORY / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "Makefile"):
            shutil.copy(REPOSITORY / name, copy)
        for each in picked:
            noticed = is_noticed(each, copy)
            known = EQUIVALENT.get(each.name, "")
            survivors += not noticed and not known
            word = "killed" if noticed else f"survived ({known})" if known else "SURVIVED"
            print(f"{word:10} {each.path}:{each.line}: {each.old} -> {each.new}", flush=True)
    print(f"{len(picked)} mutations, {survivors} unexplained survivors")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
