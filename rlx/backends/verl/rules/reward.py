"""The reward function, read without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from rlx.backends.verl.rules.facts import VerlFacts
from rlx.local_files import MOST_SOURCE, parse_python, read_text
from rlx.planning.rules.rule_table import Flaw, error, rule

PASSED = ("data_source", "solution_str", "ground_truth", "extra_info")
# Of all versions together; `remote` and `gdpo` are there from 0.7 on, `prime` and `batch` before 0.9.
_MANAGERS = ("naive", "dapo", "prime", "batch", "gdpo", "remote")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@rule("RLX140")
def reward_file(facts: VerlFacts) -> Iterator[Flaw]:
    if (path := _path(facts)) and isinstance(problem := _parsed(path, _stamp(path)), str):
        yield error(f"reward.path {path.name}: {problem}", "correct the file, or the path", "reward.path")


@rule("RLX141")
def reward_function(facts: VerlFacts) -> Iterator[Flaw]:
    tree, name = _tree(facts), _name(facts)
    if tree is None or _function(tree, name) or _assigned(tree, name):
        return
    known = [node.name for node in tree.body if isinstance(node, Function)]
    fix = f"reward.function {' or '.join(known)}" if known else f"define {name} in it"
    yield error(f"reward.function {name}: the file does not define it", fix, "reward.function")


@rule("RLX142")
def reward_signature(facts: VerlFacts) -> Iterator[Flaw]:
    tree = _tree(facts)
    function = _function(tree, _name(facts)) if tree else None
    # What a decorator makes of the signature nobody can read here.
    if function is None or function.decorator_list:
        return
    arguments, passed = function.args, [*PASSED, *_kwargs(facts)]
    named = [arg.arg for arg in (*arguments.args, *arguments.kwonlyargs)]
    refused = [name for name in passed if name not in named] if arguments.kwarg is None else []
    missing = [name for name in _required(arguments) if name not in passed]
    fix = f"def {function.name}({', '.join(passed[:3])}, extra_info=None, **kwargs)"
    if refused:
        yield error(f"reward.function {function.name} takes no {', '.join(refused)}", fix, "reward.function")
    if missing:
        yield error(f"reward.function {function.name} wants {', '.join(missing)}, which verl never passes", fix)


@rule("RLX143")
def reward_returns(facts: VerlFacts) -> Iterator[Flaw]:
    tree = _tree(facts)
    function = _function(tree, _name(facts)) if tree else None
    if function is None or function.decorator_list:
        return
    if not any(isinstance(node, ast.Return) and node.value for node in ast.walk(function)):
        message = f"reward.function {function.name} has no return with a value"
        yield error(message, "return the score", "reward.function")


@rule("RLX144")
def reward_manager(facts: VerlFacts) -> Iterator[Flaw]:
    key = "reward_model.reward_manager" if facts.release < (0, 7) else "reward.reward_manager.name"
    name, source = facts.setting(key), facts.setting("reward.reward_manager.source")
    if isinstance(name, str) and name not in _MANAGERS and source in (None, "register"):
        yield error(f"{facts.named(key)}: verl has no such reward manager", f"one of {', '.join(_MANAGERS)}", key)


def _path(facts: VerlFacts) -> Path | None:
    from rlx.recipe.schema import FunctionReward

    reward = facts.recipe.reward
    return Path(reward.path) if isinstance(reward, FunctionReward) else None


def _name(facts: VerlFacts) -> str:
    from rlx.recipe.schema import FunctionReward

    reward = facts.recipe.reward
    return reward.function if isinstance(reward, FunctionReward) else ""


def _kwargs(facts: VerlFacts) -> list[str]:
    from rlx.recipe.schema import FunctionReward

    reward = facts.recipe.reward
    return list(reward.kwargs) if isinstance(reward, FunctionReward) else []


def _tree(facts: VerlFacts) -> ast.Module | None:
    path = _path(facts)
    parsed = _parsed(path, _stamp(path)) if path else None
    return parsed if isinstance(parsed, ast.Module) else None


def _stamp(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=8)
def _parsed(path: Path, stamp: int | None) -> ast.Module | str:
    """The file's tree, or what is wrong with it. Read once for all rules and arms."""
    try:
        return parse_python(read_text(path, MOST_SOURCE))
    except OSError as problem:
        return problem.strerror or "cannot be read"
    except ValueError as problem:
        return str(problem)


def _function(tree: ast.Module, name: str) -> Function | None:
    return next((node for node in tree.body if isinstance(node, Function) and node.name == name), None)


def _assigned(tree: ast.Module, name: str) -> bool:
    """The name may come from an import, an assignment, a class or a branch: then nothing more is said."""
    return any(name in _names(node) or "*" in _names(node) for node in ast.walk(tree))


def _names(node: ast.AST) -> list[str]:
    """Name what a statement defines."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, ast.Name):
        return [node.id] if isinstance(node.ctx, ast.Store) else []
    return [node.name] if isinstance(node, ast.ClassDef | Function) else []


def _required(arguments: ast.arguments) -> list[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    free = positional[: len(positional) - len(arguments.defaults)]
    keywords = [
        arg for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    return [arg.arg for arg in (*free, *keywords)]
