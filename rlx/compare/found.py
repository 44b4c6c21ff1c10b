"""What two runs found on their hosts when they started: versions, code, data. It outranks what the recipes say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlx.compare.config_diff import ConfigDifference
from rlx.evidence import JudgedRun

VALIDATION_DATA = "validation data"
_FACTS = {
    "python": "python",
    "platform": "platform",
    "machine": "machine",
    "image": "image",
    "git_commit": "git commit",
}
_SECTIONS = {
    "packages": "package",
    "ascend": "ascend",
    "code": "code",
    "commits": "commit of",
    "changes": "uncommitted changes of",
    "files": "file",
}
_DIGESTS = ("sha256", "sha256_of_first_and_last_mb")
# Written from the recipe, whose differences are named already.
_RENDERED = frozenset({"launch.sh", "recipe.yaml", "payload/aqn.json"})


def found_differences(control: JudgedRun, treatment: JudgedRun) -> tuple[ConfigDifference, ...]:
    """Facts that both runs recorded and that differ. A run that recorded nothing differs in nothing."""
    left, right = dict(_facts(control)), dict(_facts(treatment))
    return tuple(
        ConfigDifference(key, left[key], right[key]) for key in left if key in right and left[key] != right[key]
    )


def _facts(run: JudgedRun) -> Iterator[tuple[str, Any]]:
    """(name, value) of everything the run recorded; `error: …` stands where it could not find out."""
    known = run.provenance
    yield from ((word, known[key]) for key, word in _FACTS.items() if key in known)
    for section, word in _SECTIONS.items():
        facts = known.get(section)
        if isinstance(facts, Mapping):
            yield from ((f"{word} {name}", value) for name, value in facts.items() if name not in _RENDERED)
    yield from _data(run)


def _data(run: JudgedRun) -> Iterator[tuple[str, str]]:
    """The digests of the data by what they are for: their paths may differ from host to host."""
    files = run.provenance.get("data")
    for key, word in (("train", "training data"), ("val", VALIDATION_DATA)):
        path = run.plan.recipe.get("data", {}).get(key)
        if isinstance(files, Mapping) and isinstance(path, str):
            yield from ((word, digest) for name, facts in files.items() if _is(name, path) for digest in _digest(facts))


def _is(found: str, path: str) -> bool:
    """Whether an absolute path is the one of the recipe, which may start with `~`."""
    return found == path or (path.startswith("~/") and found.endswith(path[1:]))


def _digest(facts: Any) -> list[str]:
    return [facts[name] for name in _DIGESTS if name in facts] if isinstance(facts, Mapping) else []
