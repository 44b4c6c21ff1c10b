"""What rlx knows of a back-end lies in that back-end's folder: no other room imports, names or quotes one."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from rlx.backends.mindspeed_rl.keys import SECTIONS
from rlx.backends.registry import PACKAGES, kinds

ROOT = Path(__file__).parent.parent / "rlx"
OWN = tuple(ROOT.parent / package.replace(".", "/") for package in PACKAGES.values())
ROOMS = sorted({path.relative_to(ROOT).parts[0] for path in ROOT.rglob("*.py")})

# Files in which a name of a back-end is no knowledge of it.
ALLOWED = {
    "backends/registry.py": "holds the row of each back-end",
    "backends/shared/other_trainers.py": "names programs that no recipe starts by their commands",
    "payload/provenance.py": "records the digests of code, of whichever of these packages is there",
    "payload/rlx_eval.py": "evaluates after the training, outside of it: a checkpoint's form says who made it",
    "payload/rlx_eval_checkpoint.py": "as rlx_eval.py",
    "payload/gsm8k_data.py": "writes the forms by name; which back-end takes which stands in its `data`",
    "recipe/first_form.py": "the recipe's own sections, of which one has the name of a key of verl's",
    "recipe/schema.py": "words of the published JSON schema, in the descriptions of fields",
    "model/post_metric.py": "names the metric of `eval.post`, which is rlx's own",
}
WORDS = (
    r"(?<!o)verl",
    r"mindspeed",
    r"rollout_probs",
    r"\btiming_s/",
    r"\bval-(core|aux)/",
    r"\b(critic|actor|perf|grpo|training|response_length|prompt_length)/",
    r"noise_injection\b(?!\.py)",
)
# First segments of the keys that are words of everybody's.
COMMON_SEGMENTS = {"data", "model", "trainer", "critic", "algorithm", "hydra", "reward", "reward_model"}
_OF_COMMON_SEGMENTS = r"\b(trainer|algorithm)\.(?!kind|kl|clip)\w+|\bdata\.(train|val)_(files|batch_size|max_samples)"


@cache
def key_segments() -> frozenset[str]:
    """How the keys of the back-ends begin, by their own tables."""
    tables = (json.loads(path.read_text(encoding="utf-8")) for folder in OWN for path in folder.glob("keys/**/*.json"))
    keys = {key for table in tables for key in table if "." in key} | set(SECTIONS)
    segments = {key.split(".")[0] for key in keys}
    return frozenset(segments - COMMON_SEGMENTS)


@cache
def pattern() -> re.Pattern[str]:
    keys = rf"\b({'|'.join(sorted(map(re.escape, key_segments())))})\.\w"
    return re.compile("|".join((*WORDS, keys, _OF_COMMON_SEGMENTS)), re.IGNORECASE)


def files_of(room: str) -> Iterator[Path]:
    place = ROOT / room
    for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
        if not any(path.is_relative_to(folder) for folder in OWN) and str(path.relative_to(ROOT)) not in ALLOWED:
            yield path


def told(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and reason of each import, comparison and text that names a back-end. Docstrings are free."""
    free = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from ((node.lineno, f"imports {name}") for name in names if name.startswith(tuple(PACKAGES.values())))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in free:
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if text in kinds() or pattern().search(text):
                yield node.lineno, f"says {text[:80]!r}"


@pytest.mark.parametrize("room", ROOMS)
def test_no_other_room_knows_a_backend(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {why}"
        for path in files_of(room)
        for line, why in told(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)


def test_the_walk_sees_what_it_is_to_see() -> None:
    text = '"""verl is free here."""\nfrom rlx.backends.verl.keys import release\nx = kind == "verl"\n'
    text += 'key = f"actor_rollout_ref.actor.{name}"\nother = "rl_config.actor_resource"\nfree = "overlap"\n'
    assert [line for line, _ in sorted(told(ast.parse(text)))] == [2, 3, 4, 5]


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_what_is_allowed_needs_it(name: str) -> None:
    path = ROOT / name
    assert path.exists() and list(told(ast.parse(path.read_text(encoding="utf-8")))), f"{name} needs no leave"
