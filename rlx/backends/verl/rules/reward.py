"""The reward function, read without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.backends.verl.rules.facts import VerlFacts
from rlx.local_files import MOST_SOURCE, parse_python, read_text
from rlx.planning.rules.rule_table import RuleFinding, error, rule

if TYPE_CHECKING:
    from rlx.recipe.schema import FunctionReward

PASSED = ("data_source", "solution_str", "ground_truth", "extra_info")
# Of all versions together; `remote` and `gdpo` are there from 0.7 on, `prime` and `batch` before 0.9.
_MANAGERS = ("naive", "dapo", "prime", "batch", "gdpo", "remote")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@rule("RLX140")
def reward_file(facts: VerlFacts) -> Iterator[RuleFinding]:
    reward, problem = _reward(facts), _parsed_reward(facts)
    if reward and isinstance(problem, str):
        yield error(f"reward.path {Path(reward.path).name}: {problem}", "correct the file, or the path", "reward.path")


@rule("RLX141")
def reward_function(facts: VerlFacts) -> Iterator[RuleFinding]:
    reward, tree = _reward(facts), _parsed_reward(facts)
    if reward is None or not isinstance(tree, ast.Module):
        return
    name = reward.function
    # The name may come from an import, an assignment, a class or a branch.
    if _function(tree, name) or any({name, "*"} & set(_names(node)) for node in ast.walk(tree)):
        return
    known = [node.name for node in tree.body if isinstance(node, Function)]
    fix = f"reward.function {' or '.join(known)}" if known else f"define {name} in it"
    yield error(f"reward.function {name}: the file does not define it", fix, "reward.function")


@rule("RLX142")
def reward_signature(facts: VerlFacts) -> Iterator[RuleFinding]:
    reward, function = _reward(facts), _reward_function(facts)
    if reward is None or function is None:
        return
    arguments, passed = function.args, [*PASSED, *reward.kwargs]
    named = [arg.arg for arg in (*arguments.args, *arguments.kwonlyargs)]
    refused = [name for name in passed if name not in named] if arguments.kwarg is None else []
    missing = [name for name in _required(arguments) if name not in passed]
    fix = f"def {function.name}({', '.join(passed[:3])}, extra_info=None, **kwargs)"
    if refused:
        yield error(f"reward.function {function.name} takes no {', '.join(refused)}", fix, "reward.function")
    if missing:
        yield error(f"reward.function {function.name} wants {', '.join(missing)}, which verl never passes", fix)


@rule("RLX143")
def reward_returns(facts: VerlFacts) -> Iterator[RuleFinding]:
    function = _reward_function(facts)
    if function and not any(isinstance(node, ast.Return) and node.value for node in ast.walk(function)):
        message = f"reward.function {function.name} has no return with a value"
        yield error(message, "return the score", "reward.function")


@rule("RLX144")
def reward_manager(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = "reward_model.reward_manager" if facts.release < (0, 7) else "reward.reward_manager.name"
    name, source = facts.setting(key), facts.setting("reward.reward_manager.source")
    if isinstance(name, str) and name not in _MANAGERS and source in (None, "register"):
        yield error(f"{facts.named(key)}: verl has no such reward manager", f"one of {', '.join(_MANAGERS)}", key)


def _reward(facts: VerlFacts) -> FunctionReward | None:
    from rlx.recipe.schema import FunctionReward

    reward = facts.recipe.reward
    return reward if isinstance(reward, FunctionReward) else None


def _parsed_reward(facts: VerlFacts) -> ast.Module | str | None:
    """Return the tree of the reward file, or what is wrong with it; None for a recipe without such a file."""
    if (reward := _reward(facts)) is None:
        return None
    path = Path(reward.path)
    try:
        stamp = path.stat().st_mtime_ns
    except (OSError, ValueError):
        stamp = None
    return _parsed(path, stamp)


def _reward_function(facts: VerlFacts) -> Function | None:
    """Return the recipe's reward function; None where its signature cannot be read, as with a decorator."""
    reward, tree = _reward(facts), _parsed_reward(facts)
    if reward is None or not isinstance(tree, ast.Module):
        return None
    function = _function(tree, reward.function)
    return None if function is None or function.decorator_list else function


@lru_cache(maxsize=8)
def _parsed(path: Path, stamp: int | None) -> ast.Module | str:
    """Return the file's tree, or what is wrong with it. It is read once for all rules and arms."""
    try:
        return parse_python(read_text(path, MOST_SOURCE))
    except OSError as problem:
        return problem.strerror or "cannot be read"
    except ValueError as problem:
        return str(problem)


def _function(tree: ast.Module, name: str) -> Function | None:
    return next((node for node in tree.body if isinstance(node, Function) and node.name == name), None)


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
