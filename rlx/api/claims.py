"""Put all that was computed of some runs into JSON, and find where two such documents differ."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlx.api.judged_comparison import Compared
from rlx.renamed_keys import current_key, current_names

if TYPE_CHECKING:
    from rlx.api.judged_comparison import Uncompared
    from rlx.compare import Comparison
    from rlx.evidence import JudgedRun

Claims = Mapping[str, Any]
_VALUES = {"control", "treatment"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that was claimed and is not what follows. `run_id` is "" for what is of no single run.

    `field`: the keys that lead to it, below its run; or the file that it is about. `one_sided`: one of the two has no
    such field at all.
    """

    run_id: str
    field: str
    claimed: Any
    computed: Any
    one_sided: bool = False

    @property
    def is_wording(self) -> bool:
        """Tell whether two versions of rlx may say this of the same evidence: a text, or a field that one has not."""
        texts = all(isinstance(value, str) and " " in value for value in (self.claimed, self.computed))
        return texts or self.one_sided


def claims_of(found: Compared | Uncompared) -> Claims:
    """Every verdict, value and sentence, with what was left out and which experiments of the like there are."""
    from rlx.model import to_jsonable

    what = _compared(found.comparison) if isinstance(found, Compared) else {"problem": found.problem}
    runs = [_run(run) for run in found.runs]
    document = {"runs": runs, "left_out": found.left_out, "others": found.others, **what}
    claims: Claims = json.loads(json.dumps(to_jsonable(document)))
    return claims


def _compared(comparison: Comparison) -> Claims:
    """The comparison, and in words what is not in it."""
    from rlx.compare.comparison_document import comparison_document
    from rlx.compare.left_out import left_out_groups, left_out_sentence
    from rlx.compare.other_experiments import other_experiments_lines

    left_out = [left_out_sentence(comparison.left_out), *(f"  {line}" for line in left_out_groups(comparison.left_out))]
    others = other_experiments_lines(comparison.treatment_kind, comparison.others)
    beside = [line for line in (*left_out, *others) if line]
    return {"beside": beside, "comparison": comparison_document(comparison)}


def _run(run: JudgedRun) -> Mapping[str, Any]:
    verdict = run.verdict
    return {"run_id": run.run_id, "state": run.state, "verdict": verdict, "sentence": verdict.sentence}


def named_as_now(claimed: Any) -> Any:
    """Return what an earlier version claimed, with the current names of recipe keys where it lists differences."""
    if isinstance(claimed, list):
        return [named_as_now(item) for item in claimed]
    if not isinstance(claimed, dict):
        return claimed
    key = claimed.get("key")
    if isinstance(key, str) and claimed.keys() >= _VALUES:
        values = {name: _value_as_now(key.split("."), claimed[name]) for name in _VALUES}
        return {**claimed, "key": current_key(key), **values}
    return {name: named_as_now(value) for name, value in claimed.items()}


def _value_as_now(keys: Sequence[str], value: Any) -> Any:
    """Return the value at a recipe key with current names: a whole section has keys of its own."""
    if not isinstance(value, dict):
        return value
    for key in reversed(keys):
        value = {key: value}
    named: Any = current_names(value)
    for key in current_key(".".join(keys)).split("."):
        named = named.get(key) if isinstance(named, dict) else None
    return named


def differences(claimed: Any, computed: Any) -> list[Difference]:
    """Every value in which two documents differ, each once: arms of one run repeat what they say of it."""
    return list({(each.run_id, each.field): each for each in _differences(claimed, computed, "", ())}.values())


def _differences(claimed: Any, computed: Any, run_id: str, keys: tuple[str, ...]) -> Iterator[Difference]:
    if isinstance(claimed, dict) and isinstance(computed, dict):
        if (own := claimed.get("run_id", run_id)) != run_id:
            run_id, keys = str(own), ()
        pairs = [(key, claimed, computed) for key in dict.fromkeys((*claimed, *computed))]
        yield from _below(pairs, run_id, lambda key: (*keys, key))
    elif isinstance(claimed, list) and isinstance(computed, list):
        ours, theirs = dict(enumerate(claimed)), dict(enumerate(computed))
        pairs = [(place, ours, theirs) for place in range(max(len(claimed), len(computed)))]
        yield from _below(pairs, run_id, lambda place: (*keys[:-1], f"{keys[-1] if keys else ''}[{place}]"))
    elif not _agree(claimed, computed):
        yield Difference(run_id, ".".join(keys), claimed, computed)


def _below(
    pairs: Sequence[tuple[Any, dict[Any, Any], dict[Any, Any]]], run_id: str, keys: Callable[[Any], tuple[str, ...]]
) -> Iterator[Difference]:
    """Compare what two documents hold under each key. What only one of them has is not looked into."""
    for key, claimed, computed in pairs:
        if key in claimed and key in computed:
            yield from _differences(claimed[key], computed[key], run_id, keys(key))
        else:
            yield Difference(run_id, ".".join(keys(key)), claimed.get(key), computed.get(key), one_sided=True)


def _agree(claimed: Any, computed: Any) -> bool:
    """Machines may differ in the last digits of a float, and in nothing else."""
    if isinstance(claimed, float) and isinstance(computed, float):
        return math.isclose(claimed, computed, rel_tol=1e-9, abs_tol=1e-12)
    return type(claimed) is type(computed) and bool(claimed == computed)
