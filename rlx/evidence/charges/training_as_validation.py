"""Check that a run was not validated on the file that it was trained on: RLX785."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.verdict import Charge, invalid, remark
from rlx.model import Severity

_DIGESTS = ("sha256", "sha256_of_first_and_last_mb")
_WAIVED_BY = "RLX024"


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge one file in both places, by the digests that the run recorded at its start.

    A recipe that waives RLX024 accepts it, and with `eval.post` other rows decide: then it is a note.
    """
    recipe = given.setup.recipe
    train, val = (_digests(given.setup.found.get("data"), _at(recipe, "data", key)) for key in ("train", "val"))
    if not train or train != val:
        return
    message = "the training file and the validation file are one file, by the digests that the run recorded"
    reason = _at(recipe, "waive", _WAIVED_BY)
    if reason or _at(recipe, "eval", "post"):
        why = f"waived ({reason})" if reason else "eval.post decides"
        yield remark("RLX785", Severity.NOTE, f"{why}: {message}")
    else:
        yield invalid("RLX785", message, "validate on rows that the run does not train on, and launch again")


def _digests(files: Any, path: Any) -> tuple[Any, ...]:
    """What tells the content of a file, which is recorded under its path on the host; empty where it is unknown."""
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
