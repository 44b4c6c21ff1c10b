"""The report as one self-contained HTML page: no script, no font, no request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rlx.compare import Comparison, Contrast
from rlx.compare.device_report import DeviceReport, sentences
from rlx.compare.excluded_runs import ExcludedRun, related_experiments_lines
from rlx.compare.sentences import headline, registered_lines
from rlx.evidence import ItemScores, ItemTexts, JudgedRun
from rlx.evidence.diagnosis import Diagnosis
from rlx.model import Finding, Severity
from rlx.report import page_tables as tables
from rlx.report.drawing import NARROW, WIDE, scene
from rlx.report.item_tables import found_items
from rlx.report.multiples import EXPLORATORY, drawn_arms, legend_scene, multiples, panel_scene
from rlx.report.page_tables import log_facts, record_rows
from rlx.report.picture import Picture, picture
from rlx.report.safe_text import shown
from rlx.report.svg import style_rules, svg_markup
from rlx.table import Table

if TYPE_CHECKING:
    from jinja2 import Environment

_NAME = 80
SIGNS = {"valid": "✓", "limited": "◐", "unverified": "?", "incomplete": "…", "contradicted": "✗", "invalid": "✗"}


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a report. `runs` are the control's, then those of each treatment.

    `comparison` is None where no log has a metric to compare by; `problem` then says so. `items`: the scores per item
    by step and run id, as `compare` takes them; `diagnoses`: what the logs of runs that did not finish show, by run id.
    `left_out`: the runs of the same experiment that are not included. `curves`: patterns of the metrics whose training
    curves are shown; without any, those that show how a training is going. `texts`: the answers of runs to the items of
    `items_to_read`, by run id and item. `reach`: a value for which it is shown when each run reached it. `devices`: the
    use of the devices of each run. `made`: the time of making in words, `made_by`: rlx and its version.
    """

    runs: Sequence[JudgedRun]
    comparison: Comparison | None
    made: str
    made_by: str
    problem: str = ""
    items: Mapping[int, Mapping[str, ItemScores]] = field(default_factory=dict)
    diagnoses: Mapping[str, Diagnosis] = field(default_factory=dict)
    left_out: Sequence[ExcludedRun] = ()
    curves: Sequence[str] = ()
    texts: Mapping[str, Mapping[str, ItemTexts]] = field(default_factory=dict)
    reach: float | None = None
    devices: Sequence[DeviceReport] = ()


def html(report: Report) -> str:
    """Render the page. Everything from a log, a recipe or a host is escaped.

    Raises UsageError where `curves` match no metric of any log.
    """
    from importlib.resources import files

    style = (files("rlx.report") / "page.css").read_text(encoding="utf-8")
    template = templates().get_template("page.html.j2")
    return template.render(_content(report), style=_markup(style + style_rules()), signs=SIGNS)


def templates() -> Environment:
    """Return the templates of the page and of its tables; text from outside is escaped."""
    from importlib.resources import files

    from jinja2 import Environment, FunctionLoader, StrictUndefined

    folder = files("rlx.report")
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Not only quotes are dangerous: a file may not contain some characters.
        finalize=lambda value: shown(value) if isinstance(value, str) and not hasattr(value, "__html__") else value,
    )
    environment.filters["name"] = lambda value: shown(value, _NAME)
    return environment


def _content(report: Report) -> dict[str, Any]:
    """Collect everything that the template uses."""
    found = report.comparison
    drawn = picture(found, report.runs) if found else None
    known = {run.run_id: run.label for run in found.runs} if found else {}
    labels = [known.get(run.run_id, run.name) for run in report.runs]
    return {
        "report": report,
        "title": _title(report),
        "comparison": found,
        "registered": [*registered_lines(found.registered)] if found and found.registered else [],
        "summary": [(each, _unsaid(each)) for each in (found.contrasts if found else ())],
        "status": _status(report),
        "charts": _charts(drawn) if drawn and any(curve.points for curve in drawn.curves) else [],
        "values": tables.values_table(found, drawn) if found and drawn else None,
        "run_values": tables.runs_table(found, drawn) if found and drawn else None,
        **_training(report),
        "runs": [_run(run, label, report) for run, label in zip(report.runs, labels, strict=True)],
        "versions": tables.versions_table(report.runs, labels),
        "differences": _differences(found),
        "items": _items(report),
        "found_items": found_items(found, report.runs, report.items, report.texts),
        "devices": [(each, tables.device_table(each), [*sentences(each.use)]) for each in report.devices],
        "speed": tables.speed_table(found) if found else None,
        "reach": None
        if found is None or report.reach is None
        else tables.reach_table(found, report.runs, report.reach),
        "secondary": tables.secondary_table(found.registered, report.runs) if found and found.registered else None,
        "left_out": tables.left_out_table(report.left_out),
        "others": [*related_experiments_lines(found.treatment_kind, found.others)] if found else [],
    }


def _title(report: Report) -> str:
    name = report.runs[0].plan.name
    if report.comparison is None or not report.comparison.treatments:
        return f"{name}: {', '.join(dict.fromkeys(run.arm for run in report.runs))}"
    treatments = ", ".join(arm.label for arm in report.comparison.treatments)
    return f"{name}: {treatments} against {report.comparison.control.label}"


def _status(report: Report) -> tuple[str, str]:
    """Return (class, words): how the numbers may be used, in a few words."""
    found = report.comparison
    if found is None:
        return "invalid", "no result"
    if any(run.is_excluded for run in found.runs) or any(contrast.errors for contrast in found.contrasts):
        return "invalid", "no result: do not report"
    registered = found.registered
    if registered and registered.is_open:
        return "incomplete", headline(found)
    if registered and not registered.answers:
        return "invalid", headline(found)
    if found.interim:
        return "incomplete", "interim: some runs have not ended"
    if found.withheld:
        return "incomplete", f"interim: {found.withheld}"
    said = headline(found) or "values of one arm, without a comparison"
    if not found.verified:
        return "unverified", f"unverified: report only with that word; {said}"
    if registered or not found.contrasts:
        return "valid", said
    of_arms = all(contrast.test is not None and contrast.test.is_of_arms for contrast in found.contrasts)
    return "valid" if of_arms else "limited", said


def _unsaid(contrast: Contrast) -> list[Finding]:
    """List the findings of a contrast that its sentences do not contain."""

    def is_said(finding: Finding) -> bool:
        return finding.severity is Severity.NOTE and any(finding.message in each for each in contrast.sentences)

    return [finding for finding in contrast.findings if not is_said(finding)]


def _charts(drawn: Picture) -> list[tuple[str, Any]]:
    """Draw the picture for wide and for narrow windows, because a scaled one cannot be read."""
    sizes = (("wide", WIDE), ("narrow", NARROW))
    return [(name, _markup(svg_markup(scene(drawn, width), name))) for name, width in sizes]


def _training(report: Report) -> dict[str, Any]:
    """Draw the training curves separately, so that the page can arrange them side by side."""
    found = multiples(drawn_arms(report.comparison, report.runs), report.curves)
    panels = [
        _markup(svg_markup(panel_scene(drawn), f"training-{index}")) for index, drawn in enumerate(found.pictures)
    ]
    curves = found.pictures[0].curves if found.pictures else ()
    sizes = (("wide", WIDE), ("narrow", NARROW))
    legends = [(name, _markup(svg_markup(legend_scene(curves, width), f"legend-{name}"))) for name, width in sizes]
    notes = (EXPLORATORY, *found.notes)
    return {"panels": panels, "legends": legends, "notes": notes, "training": tables.training_table(found)}


def _run(run: JudgedRun, label: str, report: Report) -> dict[str, Any]:
    records, more = record_rows(run)
    diagnosis, said = report.diagnoses.get(run.run_id), run.verdict.findings
    if diagnosis is not None:
        # Both apply the same rules to the metrics, and the page shows the verdict first.
        diagnosis = replace(diagnosis, findings=tuple(each for each in diagnosis.findings if each not in said))
    return {
        "run": run,
        "label": label,
        "status": run.verdict.word,
        # The badge before it says the word.
        "sentence": run.verdict.sentence.removeprefix(f"{run.verdict.word}: "),
        "findings": said,
        "records": records,
        "more_records": more,
        "facts": log_facts(run.evidence),
        "diagnosis": diagnosis,
    }


def _differences(comparison: Comparison | None) -> list[tuple[Any, list[Table]]]:
    if comparison is None:
        return []
    label = comparison.control.label
    return [(contrast, tables.difference_tables(contrast, label)) for contrast in comparison.contrasts]


def _items(report: Report) -> list[Table]:
    """Make one table for each contrast whose test is paired."""
    if report.comparison is None:
        return []
    labels = {run.run_id: run.label for run in report.comparison.runs}
    return [
        tables.items_table(found[control], found[treatment], (labels[control], labels[treatment]))
        for contrast in report.comparison.contrasts
        if contrast.test is not None and contrast.test.is_by_item and contrast.step is not None
        for found in [report.items[contrast.step]]
        for control, treatment in [contrast.checkpoints]
    ]


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)
