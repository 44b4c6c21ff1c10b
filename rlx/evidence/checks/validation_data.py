"""Check the data and the precision of validations: RLX785 and RLX723.

Training and validation use one rollout, so that a difference in precision is between the rollout and the actor. It may
be the purpose of an experiment; a reader of the values must know which model they are of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.grammars import grammars
from rlx.evidence.verdict import CheckFinding, invalid, remark
from rlx.model import Severity

_DIGESTS = ("sha256", "sha256_of_first_and_last_mb")
_WAIVED_BY = "RLX024"


def check_files(given: CheckInput) -> Iterator[CheckFinding]:
    """Report one file for training and validation, by the digests that the run recorded at its start.

    If the recipe waives RLX024, or with `eval.post`, where other rows decide, it is a note.
    """
    recipe = given.setup.recipe
    train, val = (_digests(given.setup.found.get("data"), _at(recipe, "data", key)) for key in ("train", "val"))
    if not train or train != val:
        return
    message = "the training file and the validation file are the same, by the digests that the run recorded"
    reason = _at(recipe, "waive", _WAIVED_BY)
    if reason or _at(recipe, "eval", "post"):
        why = f"waived ({reason})" if reason else "eval.post decides"
        yield remark("RLX785", Severity.NOTE, f"{why}: {message}")
    else:
        yield invalid("RLX785", message, "validate on rows that the run does not train on, and launch again")


def _digests(files: Any, path: Any) -> tuple[Any, ...]:
    """Return what identifies a file, which is recorded under its path on the host; empty where it is unknown."""
    if not isinstance(files, Mapping) or not isinstance(path, str) or not path:
        return ()
    own = [facts for name, facts in files.items() if name == path or (path[0] == "~" and name.endswith(path[1:]))]
    if len(own) != 1 or not isinstance(own[0], Mapping):
        return ()
    digest = next((own[0][name] for name in _DIGESTS if isinstance(own[0].get(name), str)), None)
    return (digest, own[0].get("bytes")) if digest else ()


def _at(recipe: Mapping[str, Any], section: str, key: str) -> Any:
    found = recipe.get(section)
    return found.get(key) if isinstance(found, Mapping) else None


def check_precision(given: CheckInput) -> Iterator[CheckFinding]:
    evidence = given.evidence
    said = ((each.precision, evidence.settings) for each in grammars(evidence.backend))
    found = ((precision.trained_in(settings), precision.validated_in(settings)) for precision, settings in said)
    trained, validated = next((both for both in found if all(both)), ("", ""))
    if trained != validated:
        yield remark(
            "RLX723",
            Severity.WARNING,
            f"trained in {trained}, validated in {validated}: the values have another rounding than the training",
            "validate the checkpoint in the precision that it is trained for, or state the precision of the values",
        )
