"""Manifests that another version of rlx wrote: the run stays, with its numbers, and what cannot be read is named."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx import __version__
from rlx.model import LOCAL, Expectations
from rlx.runs import Index, RunRef
from rlx.runs.manifest import parse_manifest, render_manifest
from tests.cli.support import rlx
from tests.registrations import ASKED
from tests.runs.toys import ended, home, start, toy_plan

_REF = RunRef("toy-main-s1-1", "launch-1", "toy", "main", 1, LOCAL, "~/rlx", 1e9)
_NAMES = {("run_id",), ("launch_id",), ("created_epoch",), ("plan",)} | {("plan", n) for n in ("name", "arm", "seed")}
"""Without these, nobody could say which run it is."""
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_STEP = 'line=\'{"step": 1, "data": {"timing_s/step": 0.5, "val-core/toy/acc/mean@1": 0.25}}\'\n'


def document() -> dict[str, Any]:
    plan = replace(toy_plan("true"), registration=ASKED)
    return json.loads(render_manifest(_REF, 0, plan))  # type: ignore[no-any-return]


def objects(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all objects in it."""
    if isinstance(value, dict):
        yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from objects(item, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


@st.composite
def edits(draw: st.DrawFn) -> dict[str, Any]:
    """A manifest with fields dropped and added anywhere."""
    changed = document()
    for number in range(draw(st.integers(1, 6))):
        path = draw(st.sampled_from(list(objects(changed))))
        target = at(changed, path)
        removable = sorted(key for key in target if (*path, key) not in _NAMES)
        if removable and draw(st.booleans()):
            del target[draw(st.sampled_from(removable))]
        else:
            target[f"new_{number}"] = draw(_JSON)
    return changed


@given(edits())
def test_fields_dropped_and_added_anywhere_lose_no_run(changed: dict[str, Any]) -> None:
    manifest = parse_manifest(json.dumps(changed))
    assert manifest is not None
    assert (manifest.run_id, manifest.launch_id, manifest.plan.run_name) == (_REF.run_id, "launch-1", "toy-main-s1")
    assert manifest.plan.expectations.metric


@given(st.sampled_from([path for path in objects(document()) if path[:1] == ("plan",)]), st.data())
def test_what_cannot_be_read_is_named(path: tuple[Any, ...], data: st.DataObject) -> None:
    changed = copy.deepcopy(document())
    free = {("plan", "env"), ("plan", "recipe"), ("plan", "site", "env"), ("plan", "site", "proxies")}
    at(changed, path)["of_tomorrow"] = data.draw(_JSON)
    manifest = parse_manifest(json.dumps(changed))
    assert manifest is not None
    if path in free:
        return
    assert any(place.endswith(".of_tomorrow") for place in manifest.unread)
    assert "of_tomorrow" in manifest.lacks and f"rlx {__version__}" in manifest.lacks


_LATER = {each.name for each in fields(Expectations) if each.default is not MISSING}


@given(st.sampled_from(sorted(document()["plan"]["expectations"])), _JSON)
def test_a_promise_that_cannot_be_read_is_none(field: str, value: Any) -> None:
    """One that an older rlx did not write has a default, and nobody misses it."""
    changes: list[dict[str, Any]] = [{field: {"of": "tomorrow", "value": value}}]
    for change in changes if field in _LATER else [*changes, {}]:
        changed = document()
        del changed["plan"]["expectations"][field]
        changed["plan"]["expectations"] |= change
        manifest = parse_manifest(json.dumps(changed))
        assert manifest is not None
        assert any(place.startswith(f"plan.expectations.{field}") for place in manifest.unread)


def test_what_this_rlx_wrote_is_read_in_full() -> None:
    manifest = parse_manifest(json.dumps(document()))
    assert manifest is not None
    assert (manifest.unread, manifest.lacks) == ((), "")
    assert manifest.plan.registration == ASKED


def test_a_manifest_from_before_registrations_has_none() -> None:
    before = document()
    del before["plan"]["registration"]
    manifest = parse_manifest(json.dumps(before))
    assert manifest is not None
    assert (manifest.plan.registration, manifest.unread) == (None, ())


def test_the_run_is_shown_with_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    (ref,) = start(toy_plan(f'{_STEP}echo "$line" >"$RLX_ATTEMPT_DIR/metrics.jsonl"\n'))
    ended(ref)
    path = ref.run_dir / "manifest.json"
    written = json.loads(path.read_text(encoding="utf-8"))
    written["submitted_by"]["rlx"] = "9.9.0"
    del written["plan"]["expectations"]["noise"]
    written["plan"]["quantum"] = True
    path.write_text(json.dumps(written), encoding="utf-8")
    # By an index that has never heard of it: what was launched from here is known word for word.
    monkeypatch.setenv("RLX_HOME", str(home() / "new"))
    (run,) = json.loads(rlx("status", "--json").stdout)["runs"]
    assert (run["state"], run["steps_done"], run["last_validation"]["value"]) == ("finished", 1, 0.25)
    assert run["verdict"]["status"] == "unverified"
    assert "rlx 9.9.0" in run["verdict"]["sentence"]
    assert "plan.quantum, plan.expectations.noise" in run["verdict"]["sentence"]
    assert [known.run_id for known in Index(home()).runs()] == [ref.run_id]


def test_a_time_that_no_float_holds_is_no_time() -> None:
    from rlx.runs.status.host_report import epoch_of

    with pytest.raises(ValueError, match=r"^1000"):
        epoch_of(10**400)
