"""Check that the settings of the plan were applied: in the composed configuration, and in metrics and records.

RLX644: a training program reads its configuration from its own files and from the command line together, and records
what it composed before its trainer changes anything. Values are compared as Hydra reads them. Skipped are values with
an interpolation, functions of Hydra's grammar, Hydra's own keys, and selections of configuration groups, which are not
keys of the configuration. RLX646 and RLX647: traces in the metrics and records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.grammars import by_kind
from rlx.evidence.modes import named
from rlx.evidence.traces import KeyTrace, TraceStatus
from rlx.evidence.verdict import CheckFinding, invalid, unverified
from rlx.model import LaunchPlan
from rlx.model.verdict_rules import is_made
from rlx.yaml_reader.hydra import REMOVED, bare_key, read_scalar

_SHOWN = 3
_LONGEST = 60
_ABSENT = object()
_FUNCTION = re.compile(r"[A-Za-z_]\w*\(.*\)", re.DOTALL)
NOISE = "aqn"
"""The section of a recipe that describes noise."""
_NAMED = 4


def check_composed(given: CheckInput) -> Iterator[CheckFinding]:
    """Report other settings, but not before the first step: the file may not be complete."""
    found = given.evidence.setting_mismatches
    if found and (given.state.is_terminal or given.evidence.metrics):
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        yield invalid(
            "RLX644",
            f"the engine composed settings that differ from the plan: {'; '.join(found[:_SHOWN])}{more}",
            "find out what changes these keys after the command line, such as a file of the fork, or plan the "
            "values that it composes; launch again",
        )


def setting_mismatches(
    planned: Iterable[tuple[str, object]], composed: Mapping[str, Any], free: Collection[str] = ()
) -> Iterator[str]:
    """Describe which keys have another value in the composed configuration, except for those in `free`.

    `planned`: keys with Hydra's prefixes, and their values, in the order in which they count.
    """
    for key, wanted, found in _differing("", tree_of(planned), composed):
        if key not in free and not _is_group(key, wanted, found):
            yield f"{key} planned {_short(wanted)}, composed {_short(found)}"


def tree_of(planned: Iterable[tuple[str, object]]) -> dict[str, Any]:
    """Make a tree of dotted keys with Hydra's prefixes, as Hydra composes them."""
    tree: dict[str, Any] = {}
    for written, value in planned:
        key = bare_key(written)
        if not _is_left_out(key):
            _put(tree, key.split("."), REMOVED if written.startswith("~") else value)
    return tree


def _is_left_out(key: str) -> bool:
    """Tell whether a key is not in the composed configuration: options, packages of groups and Hydra's own keys."""
    return key.startswith("-") or "@" in key or "/" in key or key.partition(".")[0] == "hydra"


def _is_group(key: str, wanted: object, found: object) -> bool:
    """Tell whether `key=name` selects a file of a group, whose content may be anywhere in the configuration."""
    is_name = wanted is None or isinstance(wanted, (str, list))
    return is_name and wanted is not REMOVED and (isinstance(found, Mapping) or (found is _ABSENT and "." not in key))


def _put(tree: dict[str, Any], path: list[str], value: object) -> None:
    """Set a key as OmegaConf does: a map changes the keys that it names, and anything else replaces the old value."""
    name, *below = path
    inner = tree.get(name)
    if not below and not isinstance(value, Mapping):
        tree[name] = value
        return
    if not isinstance(inner, dict):
        inner = tree[name] = {}
    if below:
        _put(inner, below, value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _put(inner, [str(key)], item)


def _differing(key: str, planned: object, composed: object) -> Iterator[tuple[str, object, object]]:
    if _is_interpolated(composed):
        return
    if isinstance(planned, dict) and (planned or isinstance(composed, Mapping)):
        for name, value in planned.items():
            yield from _differing(f"{key}.{name}" if key else name, value, _child(composed, name))
    elif planned is REMOVED:
        if composed is not _ABSENT:
            yield key, planned, composed
    elif not _is_same(planned, composed):
        yield key, planned, composed


def _child(composed: object, name: str) -> object:
    if isinstance(composed, Mapping):
        return next((value for key, value in composed.items() if str(key) == name), _ABSENT)
    if isinstance(composed, list) and name.isdecimal() and int(name) < len(composed):
        return composed[int(name)]
    return _ABSENT


def _is_same(planned: object, composed: object) -> bool:
    if (
        isinstance(planned, str) and (_is_interpolated(planned) or _FUNCTION.fullmatch(planned) is not None)
    ) or _is_interpolated(composed):
        return True
    if isinstance(planned, list) and isinstance(composed, list):
        return len(planned) == len(composed) and all(map(_is_same, planned, composed))
    if isinstance(planned, Mapping) and isinstance(composed, Mapping):
        items = planned.items()
        return len(planned) == len(composed) and all(_is_same(item, _child(composed, str(key))) for key, item in items)
    if isinstance(planned, str) != isinstance(composed, str):
        return _is_converted(planned, composed)
    both_nan = planned != planned and composed != composed
    return both_nan or planned == composed


def _is_converted(planned: object, composed: object) -> bool:
    """Tell whether a typed field of the configuration converted one to the other: `yes` to true, or 5 to a text."""
    if isinstance(planned, str):
        return composed is not None and read_scalar(planned) == composed
    return planned is not None and str(planned) == composed


def _is_interpolated(value: object) -> bool:
    """Tell whether a value is interpolated, or still missing."""
    return isinstance(value, str) and ("${" in value or value == "???")


def _short(value: object) -> str:
    if value is _ABSENT:
        return "(absent)"
    text = value if value is REMOVED else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def check_traced(given: CheckInput) -> Iterator[CheckFinding]:
    """Report a setting that the run's record contradicts, and one whose expected trace is absent."""
    for trace in given.traces:
        if trace.shown is TraceStatus.CONTRADICTED:
            yield _contradicted(trace)
        elif trace.shown is TraceStatus.SILENT and given.state.is_terminal:
            yield unverified(
                "RLX647",
                f"nothing shows that {trace.key} was applied: {trace.words}",
                "use a version of the back-end that logs it, and search the log for errors of the tracker",
            )


def traces_sentence(given: CheckInput, rules: int) -> Iterator[str]:
    """State for each factor of the treatment what shows it; noise has its own sentences, and older rules had none."""
    if not is_made("RLX646", rules):
        return
    traces = [trace for trace in given.traces if trace.key in given.setup.treatment and not is_noise(trace.key)]
    yield from map(_words, traces[:_NAMED])
    if len(traces) > _NAMED:
        yield f"{len(traces) - _NAMED} more settings of the treatment"


def is_noise(key: str) -> bool:
    """Tell whether a recipe key belongs to the noise, which has its own checks."""
    return key.partition(".")[0] == NOISE


def _words(trace: KeyTrace) -> str:
    """Write `train.lr shown by actor/lr at 20 steps`; `rollout.temperature in the composed configuration only`."""
    if trace.shown is TraceStatus.SHOWN:
        return f"{trace.key} shown by {trace.words}"
    if trace.shown is TraceStatus.NOT_OBSERVABLE:
        return f"{trace.key} not observable ({trace.words})"
    return f"{trace.key} {trace.shown}"


def _contradicted(trace: KeyTrace) -> CheckFinding:
    return invalid(
        "RLX646",
        f"{trace.key} was not applied as configured: {trace.words}",
        "find out what changes it after the configuration, such as the fork's own code, and whether files of another "
        "run were copied here",
        trace.step,
    )


def expected_traces(plan: LaunchPlan) -> Iterator[KeyTrace]:
    """Yield before a launch the traces of the treatment, or without one those of all settings that leave any.

    Noise is described elsewhere. Nothing for a plan without a recipe, or of a back-end without such a table.
    """
    grammar = by_kind().get(plan.backend)
    if grammar is None or not plan.has_recipe:
        return
    modes = frozenset(grammar.modes(tree_of(grammar.planned_settings(plan.command, plan.recipe))))
    treatment = [key for key in plan.treatment if not is_noise(key)]
    usual = (key for row in grammar.traces for key in row.keys if not key.startswith("overrides."))
    for key in treatment or usual:
        row = next((row for row in grammar.traces if row.is_of(key)), None)
        if row is None:
            yield KeyTrace(key, TraceStatus.COMPOSED)
        elif outside := named(modes - row.modes):
            yield KeyTrace(key, TraceStatus.NOT_OBSERVABLE, row.by, outside)
        else:
            yield KeyTrace(key, TraceStatus.SHOWN, row.by)
