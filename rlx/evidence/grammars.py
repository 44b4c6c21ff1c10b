"""Collect the log grammars of all back-ends from the registry: no line of a log names its back-end."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rlx.backends.registry import packages, parts
from rlx.evidence.log_grammar import LogGrammar, Role
from rlx.model.post_metric import POST_PREFIX

Rows = tuple[tuple[str, str], ...]


def grammars(backend: str = "") -> tuple[LogGrammar, ...]:
    """Return all grammars in the order of the registry, that of a known back-end first."""
    own = by_kind().get(backend)
    return (*filter(None, (own,)), *(each for each in by_kind().values() if each is not own))


def by_kind() -> dict[str, LogGrammar]:
    """Return `backend.kind` -> its grammar."""
    return _by_kind(rows())


def own_or_all(backend: str = "") -> tuple[LogGrammar, ...]:
    """Return the grammar of a known back-end alone; of an unknown one, all."""
    own = by_kind().get(backend)
    return (own,) if own else tuple(by_kind().values())


def names_of(role: Role, backend: str = "") -> tuple[str, ...]:
    """Return the names under which a role may be logged: those of a known back-end first, the usual one first."""
    return _names_of(rows(), role, backend)


def validation_prefixes() -> tuple[str, ...]:
    """List the prefixes of the metrics of validations."""
    return _prefixes(rows(), "validation")


def core_prefixes(backend: str = "") -> tuple[str, ...]:
    """List the prefixes of the metrics by which a run is judged, those of a known back-end first."""
    own = by_kind().get(backend)
    return (*(own.core if own else ()), *_prefixes(rows(), "core"))


def rules() -> str:
    """Name the version of all grammars: it changes whenever one of them does."""
    return " ".join(each.rules for each in grammars())


def sources() -> list[Path]:
    """List the files of the grammars: a checkout changes without a new version."""
    files: list[Path] = []
    for _, module in parts("log"):
        own = Path(module.__file__ or "")
        files += sorted(own.parent.glob("*.py")) if own.name == "__init__.py" else [own]
    return files


def rows() -> Rows:
    """List what answers are kept by, because the registry may get another row."""
    return tuple(packages().items())


@cache
def _by_kind(rows: Rows) -> dict[str, LogGrammar]:
    return {kind: module.GRAMMAR for kind, module in parts("log")}


@cache
def _names_of(rows: Rows, role: Role, backend: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in grammars(backend) for name in each.metrics.get(role, ())))


@cache
def _prefixes(rows: Rows, kind: str) -> tuple[str, ...]:
    """List prefixes of metrics; the metric of `eval.post` is named by rlx itself."""
    found = dict.fromkeys(prefix for each in grammars() for prefix in getattr(each, kind))
    return tuple(found) if POST_PREFIX.startswith(tuple(found)) else (*found, POST_PREFIX)
