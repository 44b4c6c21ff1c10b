"""rlx verify: check a bundle of rlx report against the evidence in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx import __version__
from rlx.cli.frame.output import patience, print_json, print_text
from rlx.cli.frame.streams import shortened
from rlx.errors import ExitCode
from rlx.evidence.verdict import counted
from rlx.model.verdict_rules import RULES

if TYPE_CHECKING:
    from rlx.api.bundles import Claims, Difference
    from rlx.api.verifying import JudgedBundle

_MOST_SHOWN = 20
_LONGEST = 160


def verify(
    bundle: Annotated[Path, typer.Argument(metavar="FILE", help="What rlx report --bundle wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check a bundle of rlx report against the evidence in it.

    Every verdict, value and sentence is computed again from the manifests, logs, metrics, events and outputs in it. No
    host is asked, and your own runs are not read. Exit code: 0 all of it follows, whether or not the claim, which is
    printed, may be reported · 14 something does not, or is worded by another version of rlx.
    """
    from rlx.api.verifying import judge_bundle

    with patience("verifying …"):
        judged = judge_bundle(bundle)
    if as_json:
        print_json(judged_document(judged))
    else:
        for line in judged_lines(judged):
            print_text(line)
    raise typer.Exit(ExitCode.OK if judged.agrees else ExitCode.NOT_VERIFIED)


def judged_lines(judged: JudgedBundle) -> Iterator[str]:
    """Yield the outcome, then what the evidence supports, and at the end what is in the bundle."""
    yield from _outcome_lines(judged)
    yield from _objection_lines(judged)
    if judged.computed is not None:
        yield ""
        yield from _computed_lines(judged.computed)
    yield ""
    yield from _contents_lines(judged)


def judged_document(judged: JudgedBundle) -> Mapping[str, Any]:
    """Return the outcome for `--json`. `computed`: verdicts, comparison and excluded runs as this rlx computes them."""
    return {
        "bundle": str(judged.path),
        "sha256": judged.sha256,
        "written_by": judged.written_by,
        "rlx": __version__,
        "rules": judged.rules,
        "agrees": judged.agrees,
        "runs": judged.runs,
        "differences": judged.differences,
        "worded_otherwise": judged.worded_otherwise,
        "ruled_otherwise": judged.ruled_otherwise,
        "objections": judged.objections,
        "on_trust": judged.on_trust,
        "computed": judged.computed,
    }


def _computed_lines(computed: Claims) -> Iterator[str]:
    comparison = computed.get("comparison", {})
    if words := comparison.get("claim"):
        yield words
    yield from comparison.get("answer", ())
    for run in computed["runs"]:
        yield f"{run['run_id']}: {run['sentence']}"
        waived = run["verdict"]["waived"]
        yield from (f"  {each['id']} {each['message']}" for each in run["verdict"]["findings"] if each["id"] in waived)
    apart = "exploratory: " if comparison.get("answer") else ""
    for contrast in comparison.get("contrasts", ()):
        yield from (f"{apart}{sentence}" for sentence in contrast["sentences"])
    if "problem" in computed:
        yield f"not compared: {computed['problem']}"
    yield from computed.get("beside", ())


def _outcome_lines(judged: JudgedBundle) -> Iterator[str]:
    if judged.agrees:
        yield "agrees: every verdict, value and sentence in this bundle follows from the evidence in it"
    if judged.differences:
        yield f"does not agree, in {counted(len(judged.differences), 'place')}:"
        yield from _difference_lines(judged.differences)
    if judged.ruled_otherwise:
        yield (
            f"different in {counted(len(judged.ruled_otherwise), 'place')}, by checks that changed since rules "
            f"{judged.rules}; rlx {judged.written_by} can tell whether they held at the time:"
        )
        yield from _difference_lines(judged.ruled_otherwise)
    if judged.worded_otherwise:
        yield (
            f"worded differently in {counted(len(judged.worded_otherwise), 'place')}, as two versions of rlx may do: "
            f"{_versions(judged)}. That version can tell whether these are its words:"
        )
        yield from _difference_lines(judged.worded_otherwise)
    elif judged.differences and judged.of_another_version:
        yield f"{_versions(judged)}: rules may have changed in between"


def _versions(judged: JudgedBundle) -> str:
    return (
        f"it was written by rlx {judged.written_by} with rules {judged.rules}, this is rlx {__version__} with rules "
        f"{RULES}"
    )


def _objection_lines(judged: JudgedBundle) -> Iterator[str]:
    """Yield what newer rules add, which does not contradict that the bundle was judged by its own rules."""
    for each in judged.objections[:_MOST_SHOWN]:
        verdict = f" ({each.verdict})" if each.verdict else ""
        yield f"rules {RULES} would add: {each.id} {each.run_id or 'the comparison'}{verdict}: {each.message}"
    if len(judged.objections) > _MOST_SHOWN:
        yield f"  and {len(judged.objections) - _MOST_SHOWN} more: --json has all of them"


def _difference_lines(differences: Sequence[Difference]) -> Iterator[str]:
    for each in differences[:_MOST_SHOWN]:
        yield f"  {each.run_id or 'the comparison'}: {each.field}"
        yield f"    claimed:  {_shown(each.claimed)}"
        yield f"    computed: {_shown(each.computed)}"
    if len(differences) > _MOST_SHOWN:
        yield f"  and {len(differences) - _MOST_SHOWN} more: --json has all of them"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return shortened(text, _LONGEST)


def _contents_lines(judged: JudgedBundle) -> Iterator[str]:
    yield f"{judged.path}: {_counted_runs(judged)}, {counted(judged.files, 'file')}"
    yield f"  written by rlx {judged.written_by}, verified by rlx {__version__}; sha256 {judged.sha256}"
    if judged.rules != RULES:
        yield f"  judged by rules {judged.rules}, those of its time; the current rules are {RULES}"
    for line in judged.on_trust:
        yield f"  shown by no file in it, taken from its list: {line}"


def _counted_runs(judged: JudgedBundle) -> str:
    """Return `2 runs of gsm8k, and 3 other runs`."""
    ids = {run["run_id"] for run in (judged.computed or {}).get("runs", ())}
    heads = [run for run in judged.runs if not run.node]
    compared = [run for run in heads if run.run_id in ids or not ids]
    others = f", and {counted(len(heads) - len(compared), 'other run')}" if len(heads) > len(compared) else ""
    names = ", ".join(sorted({run.name for run in compared})) or "nothing"
    return f"{counted(len(compared), 'run')} of {names}{others}"
