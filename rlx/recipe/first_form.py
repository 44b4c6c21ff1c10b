"""Compute the digests of an arm as form 1 does, which registered experiments carry: nothing here follows the schema.

A key that the table does not have came later, and is part of the digests where a recipe writes it. A default that is
another one by now is the old one here. Keys have the names that they had then (`rlx.renamed_keys.first_names`).
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.local_files import MOST_SOURCE, read_bytes
from rlx.recipe.tree import changed

Document = Mapping[str, Any]
_REQUIRED: Any = object()
_FUNCTION = {"path": _REQUIRED, "function": "compute_score", "kwargs": {}}
_VERIFIERS = {"verifiers": _REQUIRED, "weights": None}
_REWARDS = ("reward", "eval.post.reward")
# Section -> its keys with their defaults; a section comes before those in it.
_SECTIONS: Mapping[str, Mapping[str, Any]] = {
    "": {
        "version": _REQUIRED,
        "name": _REQUIRED,
        "reward": _REQUIRED,
        "aqn": None,
        "retry": None,
        "track": None,
        "env": {},
        "secrets": [],
        "seed": 1,
        "waive": {},
        "overrides": {},
    },
    "backend": {
        "kind": _REQUIRED,
        "version": _REQUIRED,
        "engine": "fsdp",
        "workdir": None,
        "trainer": None,
        "totals": None,
        "entrypoint": None,
        "config_name": None,
        "python": "python3",
        "key_source": None,
    },
    "backend.totals": {"steps": _REQUIRED, "validations": _REQUIRED},
    "model": {"path": _REQUIRED, "arch": None, "dtype": "bfloat16", "lora": None},
    "model.lora": {"rank": _REQUIRED, "alpha": _REQUIRED, "targets": "all-linear"},
    "data": {
        "train": _REQUIRED,
        "val": _REQUIRED,
        "train_rows": None,
        "val_rows": None,
        "prompt_key": "prompt",
        "max_prompt_tokens": _REQUIRED,
        "max_response_tokens": _REQUIRED,
    },
    "algorithm": {"kind": "grpo", "kl": None, "correction": None},
    "algorithm.kl": {"place": "loss", "coef": _REQUIRED, "estimator": "low_var_kl"},
    "algorithm.correction": {
        "weights": None,
        "weights_threshold": 2.0,
        "rejection": None,
        "rejection_threshold": None,
        "bypass": False,
    },
    "train": {
        "batch_size": _REQUIRED,
        "mini_batch_size": _REQUIRED,
        "micro_batch_size": _REQUIRED,
        "epochs": 1,
        "steps": None,
        "lr": _REQUIRED,
        "save_every": None,
    },
    "rollout": {
        "engine": "vllm",
        "n": _REQUIRED,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "tp": 1,
        "ep": 1,
        "memory_fraction": 0.5,
        "enforce_eager": True,
        "log_prob_micro_batch_size": _REQUIRED,
        "deterministic": False,
    },
    "layout": {
        "device": _REQUIRED,
        "nodes": 1,
        "devices_per_node": 1,
        "tp": 1,
        "pp": 1,
        "ep": 1,
        "cp": 1,
        "pools": None,
    },
    "aqn": {
        "sigma_start": _REQUIRED,
        "sigma_end": _REQUIRED,
        "stages": _REQUIRED,
        "schedule": "geometric",
        "adaptive": None,
        "perturbations": 1,
        "per_epoch": False,
        "layer_types": ["rmsnorm"],
        "targets": "auto",
        "exclude": [],
        "multipliers": {},
        "provider": "payload",
        "min_trained_share": 0.8,
    },
    "aqn.adaptive": {"target": _REQUIRED, "gain": 0.1, "sigma_min": _REQUIRED, "sigma_max": _REQUIRED},
    "aqn.adaptive.target": {"gap": None, "entropy": None},
    "eval": {
        "every": None,
        "before_train": True,
        "metric": "auto",
        "n": 1,
        "temperature": 0.0,
        "noise": False,
        "post": None,
    },
    "eval.post": {
        "rows": _REQUIRED,
        "row_count": None,
        "n": 1,
        "temperature": 0.0,
        "engine": None,
        "batch_size": 64,
        "reward": None,
        "convert": None,
    },
    "retry": {"times": _REQUIRED, "on": ["lost"], "from_checkpoint": False},
    "track": {"to": _REQUIRED, "project": None, "mode": "offline"},
}
_ALWAYS = ("algorithm", "eval")
"""Sections that exist without being written, and are left out of digests where they are empty."""
_FREE = ("overrides", "env", "waive")
# Labels, reasons, trackers, further attempts and names of secrets, and what each run of an arm has of its own.
APART = ("version", "name", "seed", "waive", "secrets", "track", "retry")
_LOCAL_PATHS = (("reward", "path"), ("eval", "post", "reward", "path"), ("backend", "key_source"))


@dataclass(frozen=True, slots=True)
class DeclaredArm:
    """`treatment`: the dotted keys it changes. `recipe`, `evaluation`: sha256 of what it runs, and is graded by."""

    name: str
    treatment: tuple[str, ...]
    recipe: str
    evaluation: str


def declared_arm(name: str, base: Document, written: Document, *, is_system: bool = False) -> DeclaredArm:
    """Take the digests of an arm from what the recipe without arms writes, and what the arm writes merged into it.

    `is_system`: it is compared as a whole, so that its weights are no part of how it is graded.
    """
    # To accept a finding changes nothing of the run.
    before = {**_filled(base), "waive": None}
    treatment = tuple(key for key in changed(before, {**_filled(written), "waive": None}) if key != "seed")
    return DeclaredArm(name, treatment, *arm_digests(written, treatment, is_system=is_system))


def arm_digests(written: Document, treatment: Sequence[str], *, is_system: bool = False) -> tuple[str, str]:
    """Return the digests of what an arm runs and of what grades it: files of this machine count by their content."""
    own = {key: value for key, value in _without_defaults(written).items() if key not in APART}
    evaluation = _evaluation(by_content(_filled(written)), treatment, weights=() if is_system else ("path",))
    return digest(by_content(own)), digest(evaluation)


def is_known(key: str) -> bool:
    """Return whether a dotted key existed when the table was made."""
    section, _, name = key.rpartition(".")
    forms = (_FUNCTION | _VERIFIERS) if section in _REWARDS else _SECTIONS.get(section, {})
    return name in forms or key.partition(".")[0] in _FREE


def by_content(document: Document, paths: Iterable[Sequence[str | int]] = _LOCAL_PATHS) -> dict[str, Any]:
    """Return the document with digests in place of paths of this machine; a list of keys changes no run."""
    own = copy.deepcopy(dict(document))
    for path in paths:
        *section, key = map(str, path)
        holder = _section(own, section)
        if holder is not None and isinstance(holder.get(key), str):
            holder[key] = None if key == "key_source" else _file_digest(holder[key])
    return own


def digest(document: object) -> str:
    """Return the sha256 of the document as JSON."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _filled(written: Document) -> dict[str, Any]:
    """Return the document complete with the defaults of form 1."""
    own = {**{key: {} for key in _ALWAYS}, **copy.deepcopy(dict(written))}
    for section, defaults in _sections(own):
        for key, default in defaults.items():
            if default is not _REQUIRED:
                section.setdefault(key, copy.deepcopy(default))
    return own


def _without_defaults(written: Document) -> dict[str, Any]:
    own = copy.deepcopy(dict(written))
    for section, defaults in _sections(own):
        for key, default in defaults.items():
            if key in section and section[key] == default:
                del section[key]
    return {key: value for key, value in own.items() if value or key not in _ALWAYS}


def _sections(document: dict[str, Any]) -> list[tuple[dict[str, Any], Mapping[str, Any]]]:
    """List the sections of the table that the document has, each with its defaults."""
    found = [(_section(document, filter(None, name.split("."))), keys) for name, keys in _SECTIONS.items()]
    rewards = (_section(document, name.split(".")) for name in _REWARDS)
    found += [(reward, _FUNCTION if reward and "path" in reward else _VERIFIERS) for reward in rewards]
    return [(section, keys) for section, keys in found if section is not None]


def _section(document: dict[str, Any], path: Iterable[str]) -> dict[str, Any] | None:
    found: Any = document
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _evaluation(document: Document, treatment: Sequence[str], weights: Sequence[str]) -> dict[str, Any]:
    """Return all that decides how the arm's answers come about and are graded, as far as a recipe says it.

    Rows count by their path, weights too: their digests are known on the host alone. What an arm does to keys of the
    back-end is its treatment; the others may be about validation.
    """
    data, model, evaluation = document["data"], document["model"], document["eval"]
    post = evaluation["post"]
    kept = {
        "data": {key: data[key] for key in ("prompt_key", "max_prompt_tokens", "max_response_tokens")},
        "model": {key: model[key] for key in (*weights, "dtype")},
        "overrides": {
            key: value
            for key, value in document["overrides"].items()
            if not any(f"{each}.".startswith(f"overrides.{key}.") for each in treatment)
        },
    }
    if post is not None:
        return {**kept, "post": {**post, "reward": post["reward"] or document["reward"]}}
    rows = {key: data[key] for key in ("val", "val_rows")}
    sampling = {key: evaluation[key] for key in ("n", "temperature", "noise", "metric")}
    generation = {"engine": document["rollout"]["engine"], "reward": document["reward"]}
    return {**kept, **rows, **sampling, **generation}


def _file_digest(path: str) -> str:
    """Return the sha256 of a file; empty for a file that cannot be read, which the rules of the back-end report."""
    try:
        return hashlib.sha256(read_bytes(Path(path), MOST_SOURCE)).hexdigest()
    except OSError:
        return ""
