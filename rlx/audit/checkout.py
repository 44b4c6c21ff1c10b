"""Find the noise code of a checkout by the shape of its functions, without importing or executing it."""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import RlxError
from rlx.local_files import parse_python

_SCHEDULER = ("step", "total", "sigma_trend")
_INJECTOR = ("model", "step", "total", "sigma_trend")
_TREND = ("sigma_start", "sigma_end", "num_stages")
_TOTALS = {"total_step", "total_steps"}
_SEARCHED_FOR = (
    "a module with a function of (step, total_steps, sigma_trend) that returns sigma, and one of "
    "(model, step, total_steps, sigma_trend) that adds the noise, as QeRL and its forks have them"
)
_LARGEST, _MOST_FILES = 1 << 20, 50_000
_PIN = re.compile(r"\b(vllm|transformers)\s*((?:[=<>!~]=?[^\s;\"'#,]+,?)+)")
_PINNED_IN = re.compile(r"requirements.*\.txt|setup\.(py|cfg)|pyproject\.toml|.*\.sh|Makefile|Dockerfile.*")


@dataclass(frozen=True, slots=True)
class Call:
    """A place of the checkout that calls the noise function. `constant`: step and total, where both are literals."""

    where: str
    arguments: str
    constant: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class NoiseHook:
    """The noise code of a checkout, as in its source.

    `file` is relative to the checkout, `digest` the SHA-256 of its content. `names` are the classes of other packages
    that the injector uses, each with the module it is imported from; `texts`: what it compares names with. `trend` is
    the checkout's function of (sigma_start, sigma_end, num_stages), or None. `pins`: version and file, by package.
    """

    checkout: Path
    file: str
    commit: str | None
    digest: str
    scheduler: str
    injector: str
    trend: str | None
    names: tuple[tuple[str, str], ...]
    texts: tuple[str, ...]
    calls: tuple[Call, ...]
    pins: tuple[tuple[str, str, str], ...]

    @property
    def module(self) -> str:
        return ".".join(Path(self.file).with_suffix("").parts)


def find_hook(checkout: Path, file: str | None = None) -> NoiseHook:
    """Find the one module of the checkout that has a sigma schedule and a function that adds noise.

    Raises RlxError where there is none, or several and `file` (relative to the checkout) does not name one of them.
    """
    if not checkout.is_dir():
        raise RlxError(f"{checkout}: no such folder", "name the folder of a checkout")
    sources = dict(_python_sources(checkout))
    found = {name: tree for name, (_, tree) in _parsed(sources).items() if _scheduler(tree) and _injector(tree)}
    name = _chosen(checkout, sources, sorted(found), file)
    return _hook(checkout, name, found[name], sources)


def _chosen(checkout: Path, sources: dict[str, str], found: Sequence[str], file: str | None) -> str:
    if file is not None and file in found:
        return file
    if not found:
        raise RlxError(
            f"{checkout}: no noise code of a shape that rlx can call, in {len(sources)} Python files",
            f"searched for {_SEARCHED_FOR}",
        )
    if file is not None or len(found) > 1:
        asked = f"{file} is none of them" if file is not None else "rlx calls one at a time"
        raise RlxError(f"{checkout}: noise code in {', '.join(found)}; {asked}", "name one with --file")
    return found[0]


def _hook(checkout: Path, name: str, tree: ast.Module, sources: dict[str, str]) -> NoiseHook:
    injector = _injector(tree)
    scheduler, trend = _scheduler(tree), _with_parameters(tree, _TREND)
    assert injector is not None and scheduler is not None
    return NoiseHook(
        checkout=checkout.resolve(),
        file=name,
        commit=commit_of(checkout),
        digest=hashlib.sha256(sources[name].encode()).hexdigest(),
        scheduler=scheduler.name,
        injector=injector.name,
        trend=trend.name if trend else None,
        names=tuple(_used_classes(tree, injector)),
        texts=tuple(dict.fromkeys(_compared_texts(injector))),
        calls=tuple(_calls(sources, injector.name)),
        pins=tuple(dict.fromkeys(_pins(checkout))),
    )


def _python_sources(checkout: Path) -> Iterator[tuple[str, str]]:
    """Yield the text of each Python file, except links, hidden folders and installed environments."""
    seen = 0
    for folder, inside, files in os.walk(checkout):
        inside[:] = [name for name in inside if not name.startswith(".") and name not in {"site-packages", "tests"}]
        for name in files:
            path = Path(folder, name)
            if path.suffix != ".py" or not _is_readable(path):
                continue
            seen += 1
            if seen > _MOST_FILES:
                raise RlxError(f"{checkout}: more than {_MOST_FILES:,} Python files", "name the folder of one checkout")
            yield str(path.relative_to(checkout)), path.read_text(encoding="utf-8", errors="replace")


def _is_readable(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size <= _LARGEST


def _parsed(sources: dict[str, str]) -> dict[str, tuple[str, ast.Module]]:
    """Parse the files that can hold noise code and that this Python can read."""
    trees = {name: _tree(text) for name, text in sources.items() if "sigma_trend" in text}
    return {name: (sources[name], tree) for name, tree in trees.items() if tree is not None}


def _tree(text: str) -> ast.Module | None:
    try:
        return parse_python(text, _LARGEST)
    except ValueError:
        return None


def _scheduler(tree: ast.Module) -> ast.FunctionDef | None:
    return _with_parameters(tree, _SCHEDULER)


def _injector(tree: ast.Module) -> ast.FunctionDef | None:
    return _with_parameters(tree, _INJECTOR)


def _with_parameters(tree: ast.Module, wanted: Sequence[str]) -> ast.FunctionDef | None:
    """Return the first function whose parameters begin like this; all others must have a default."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            names = ["total" if each.arg in _TOTALS else each.arg for each in node.args.args]
            required = len(names) - len(node.args.defaults)
            if names[: len(wanted)] == list(wanted) and required <= len(wanted):
                return node
    return None


def _used_classes(tree: ast.Module, injector: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Yield imported classes that the injector names: imported at the top and used, or imported inside."""
    used = {node.id for node in ast.walk(injector) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if alias.name[:1].isupper() and (alias.asname or alias.name) in used:
                    yield alias.name, node.module


def _compared_texts(injector: ast.FunctionDef) -> Iterator[str]:
    """Yield the texts that a function compares with `in`, `not in` or `==` to match modules by name."""
    docstring = ast.get_docstring(injector, clean=False)
    for node in ast.walk(injector):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn | ast.Eq):
            for side in (node.left, *node.comparators):
                if isinstance(side, ast.Constant) and isinstance(side.value, str) and side.value != docstring:
                    yield side.value


def _calls(sources: dict[str, str], injector: str) -> Iterator[Call]:
    for name, text in sorted(sources.items()):
        tree = _tree(text) if f"{injector}(" in text else None
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Call) and _called(node.func) == injector:
                yield Call(f"{name}:{node.lineno}", _arguments(node), _constant(node))


def _called(function: ast.expr) -> str | None:
    return getattr(function, "id", None) or getattr(function, "attr", None)


def _arguments(call: ast.Call) -> str:
    """Return the arguments that determine sigma, as written."""
    given = dict(zip(("model", "step", "total_step", "sigma_trend"), call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    shown = (
        f"{name}={ast.unparse(value)[:60]}"
        for name, value in given.items()
        if name in {"step", "sigma_trend", *_TOTALS}
    )
    return ", ".join(shown)


def _constant(call: ast.Call) -> tuple[int, int] | None:
    named = {"total" if keyword.arg in _TOTALS else keyword.arg: keyword.value for keyword in call.keywords}
    named |= dict(zip(("step", "total"), call.args[1:3], strict=False))
    pair = named.get("step"), named.get("total")
    values = [each.value for each in pair if isinstance(each, ast.Constant) and isinstance(each.value, int)]
    return (values[0], values[1]) if len(values) == 2 else None


def _pins(checkout: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the versions of the packages with models that files at the top of the checkout name."""
    for path in sorted(checkout.iterdir()):
        if _PINNED_IN.fullmatch(path.name) and _is_readable(path):
            for found in _PIN.finditer(path.read_text(encoding="utf-8", errors="replace")):
                yield found[1], found[2].rstrip(","), path.name


_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def commit_of(checkout: Path) -> str | None:
    """Return the commit that is checked out; None outside of git. Uncommitted changes are not considered.

    It is read from files, since git itself would obey the checkout's configuration.
    """
    folder = _git_folder(checkout / ".git")
    head = _line(folder / "HEAD")
    name = head.removeprefix("ref: ")
    if name != head and not re.fullmatch(r"refs/[\w./-]+", name):
        return None
    common = folder / _line(folder / "commondir") if _line(folder / "commondir") else folder
    found = head if name == head else _line(common / name) or _packed(common, name)
    return found if _COMMIT.fullmatch(found) else None


def _git_folder(path: Path) -> Path:
    """Return the folder of git, which a file names in a worktree."""
    return path.parent / _line(path).removeprefix("gitdir: ") if path.is_file() else path


def _line(path: Path) -> str:
    return _file_text(path)[:4096].strip()


def _packed(folder: Path, name: str) -> str:
    lines = _file_text(folder / "packed-refs").splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")


def _file_text(path: Path) -> str:
    """Read a regular file; reading a pipe in its place would never end."""
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return ""
