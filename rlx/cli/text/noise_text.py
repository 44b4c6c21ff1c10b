"""Noise in words: the schedule of a recipe, and what an audit of noise code found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rlx.cli.frame.output import console, print_text
from rlx.cli.text.table_text import fitted
from rlx.model import SigmaSteps
from rlx.model.rounding import DTYPES, Survival, Weights
from rlx.table import Table, table_of_rows, to_markdown

if TYPE_CHECKING:
    from rlx.api.noise import EngineSource, NoiseCodeReading, NoiseCodeRuns, NoisyArm
    from rlx.audit import AuditOutcome, HookCall, NoiseHook, Resolved

_COMMIT = 12
_HEADER = ("from step", "sigma", "layers", "elements", "std", "log p moves by")


def schedule_answer(arms: Sequence[NoisyArm]) -> dict[str, Any]:
    return {"arms": [_arm_answer(arm) for arm in arms]}


def _arm_answer(arm: NoisyArm) -> dict[str, Any]:
    return {
        "arm": arm.name,
        "dtype": arm.dtype,
        "total_steps": len(arm.noise.sigmas),
        "noisy_steps": arm.noisy_steps,
        "steps_mostly_rounded_away": {kind: sum(span.steps for span in arm.lost(kind)) for kind in arm.weights},
        "weights_around": {kind: around(weights) for kind, weights in arm.weights.items()},
        "sigmas": arm.noise.sigmas,
        "adaptive": arm.noise.adaptive,
        "stages": [
            {"first": span.first, "last": span.last, "sigma": span.sigma, "survives": _survives(arm, span)}
            for span in arm.noise.spans
        ],
    }


def _survives(arm: NoisyArm, span: SigmaSteps) -> dict[str, dict[str, Survival]]:
    """Return the rest after rounding, by layer type and dtype; empty for a stage without noise."""
    kinds = arm.weights if span.sigma else ()
    return {kind: {dtype: arm.left(kind, dtype, span) for dtype in DTYPES} for kind in kinds}


def print_terminal(arms: Sequence[NoisyArm]) -> None:
    out = console()
    for arm, kind in _by_kind(arms):
        print_text("\n".join(_sentences(arm, kind)))
        out.print(fitted(_table(arm, kind), out.width))
        out.print()


def markdown_text(arms: Sequence[NoisyArm]) -> str:
    parts = ((" ".join(_sentences(arm, kind)), to_markdown(_table(arm, kind))) for arm, kind in _by_kind(arms))
    return "\n".join(f"{sentences}\n\n{table}" for sentences, table in parts)


def _by_kind(arms: Sequence[NoisyArm]) -> Iterator[tuple[NoisyArm, str]]:
    return ((arm, kind) for arm in arms for kind in arm.weights)


def _sentences(arm: NoisyArm, kind: str) -> Iterator[str]:
    yield f"arm {arm.name}, {kind} layers: {len(arm.noise.sigmas)} steps, {arm.noisy_steps} with noise."
    if follows := arm.noise.adaptive:
        yield f"Sigma follows the {follows.target} that the run measures; the table shows its start."
    lost = arm.lost(kind)
    about = f"{arm.dtype} weights around {around(arm.weights[kind]):.3g}"
    if lost:
        steps = sum(span.steps for span in lost)
        largest = max(span.sigma for span in lost)
        yield f"On {about}, rounding removes most of it in {steps} of them (sigma {largest:.3g} and less)."
    else:
        yield f"On {about}, at least half of it survives rounding in each of them."


def _table(arm: NoisyArm, kind: str) -> Table:
    headings = ["steps", "sigma", *(f"{dtype} *" if dtype == arm.dtype else dtype for dtype in DTYPES)]
    return table_of_rows(headings, list(_rows(arm, kind)), flows=True)


def _rows(arm: NoisyArm, kind: str) -> Iterator[list[str]]:
    for span in arm.noise.spans:
        steps = f"{span.first}–{span.last}" if span.steps > 1 else str(span.first)
        left = (arm.left(kind, dtype, span) for dtype in DTYPES) if span.sigma else ()
        cells = [f"{percent(each.changed)} change, std {each.std:.2g}" for each in left]
        yield [steps, f"{span.sigma:.3g}" if span.sigma else "none", *(cells or ["–"] * len(DTYPES))]


def around(weights: Weights) -> float:
    """Return the median of the absolute weights."""
    ordered = sorted((abs(weight), count) for weight, count in weights.items())
    half = sum(weights.values()) / 2
    seen = 0
    for weight, count in ordered:
        seen += count
        if seen >= half:
            return weight
    return 0.0


def percent(share: float) -> str:
    """Round to percent, but not to 0 or 100 unless that is exact to six digits."""
    if share < 1e-6:
        return "0 %"
    text = f"{100 * share:.2g}" if share < 0.1 else f"{100 * share:.0f}"
    return f"{'<100' if text == '100' and share < 1 - 1e-6 else text} %"


def audit_answer(reading: NoiseCodeReading, runs: NoiseCodeRuns | None) -> dict[str, Any]:
    hook = reading.hook
    return {
        "checkout": str(hook.checkout),
        "commit": hook.commit,
        "file": hook.file,
        "digest": hook.digest,
        "functions": {"scheduler": hook.scheduler, "noise": hook.injector, "trend": hook.trend},
        "pins": [{"package": package, "version": version, "file": file} for package, version, file in hook.pins],
        "read": {
            "class_names": [{"name": name, "imported_from": module} for name, module in hook.names],
            "texts": list(hook.texts),
            "calls": hook.calls,
            "resolved": [_resolved_answer(each) for each in reading.matched],
            "engines": [_engine_answer(each) for each in reading.engines],
        },
        "run": None
        if runs is None
        else {"python": runs.python, "fenced": runs.fenced, "models": [*map(_model_answer, runs.outcomes)]},
    }


def _model_answer(outcome: AuditOutcome) -> dict[str, Any]:
    names = ("engine", "version", "torch", "model", "norms", "norm_elements", "sigmas", "calls", "told")
    constant = [{"step": step, "total": total, "sigma": sigma} for step, total, sigma in outcome.constant_calls]
    return {
        **{name: getattr(outcome, name) for name in names},
        "constant_calls": constant,
        "norm_layers": outcome.norm_layers,
        "layers_reached": outcome.reached,
        "sentence": sentence(outcome),
    }


def _engine_answer(engine: EngineSource) -> dict[str, Any]:
    source = engine.source
    norms = [{"name": each.name, "bases": list(each.bases)} for each in engine.norms]
    return {"package": source.package, "version": source.version, "norms": norms, "is_a_named_class": engine.matches}


def _resolved_answer(resolved: Resolved) -> dict[str, Any]:
    source = resolved.source
    return {"name": resolved.name, "package": source.package, "version": source.version, "bases": list(resolved.bases)}


def sentence(outcome: AuditOutcome) -> str:
    """Return in one line what the code did to this model."""
    if not outcome.noisy:
        return f"its schedule gives no step a sigma above 0: 0 of {outcome.norm_layers} norm layers changed"
    if not outcome.reached:
        told = outcome.told
        given = f"; given the class of the model: {told.layers} layers, {told.elements} elements" if told else ""
        return f"reaches 0 of {outcome.norm_layers} norm layers, 0 elements changed{given}"
    strongest = max(outcome.noisy, key=lambda call: (call.layers, call.sigma))
    classes = ", ".join(f"{number} {_short(name)}" for name, number in strongest.classes.items())
    reached = f"{strongest.layers} layers ({classes}), {strongest.elements} elements"
    return f"reaches {reached}; the model has {outcome.norm_layers} norm layers of {outcome.norm_elements} elements"


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def question(hook: NoiseHook, python: str) -> str:
    return f"Execute {hook.file} of {hook.checkout} ({version(hook)}) with {python}?"


def version(hook: NoiseHook) -> str:
    return f"commit {hook.commit[:_COMMIT]}" if hook.commit else f"no commit, SHA-256 {hook.digest[:_COMMIT]}"


def print_reading(reading: NoiseCodeReading) -> None:
    for line in _reading_lines(reading):
        print_text(line)


def _reading_lines(reading: NoiseCodeReading) -> Iterator[str]:
    hook = reading.hook
    yield f"{hook.checkout}, {version(hook)}: {hook.file} ({hook.scheduler}, {hook.injector})"
    pins = ", ".join(f"{package}{pin} ({file})" for package, pin, file in hook.pins)
    yield f"pins: {pins or 'neither vllm nor transformers, at the top of the checkout'}"
    yield ""
    yield "read, nothing executed:"
    names = ", ".join(f"{name} of {module}" for name, module in hook.names)
    yield f"  class names in the noise code: {names or 'none'}"
    yield f"  texts it compares with: {', '.join(hook.texts) or 'none'}"
    for call in hook.calls:
        yield f"  called at {call.where}: {call.arguments}"
    if not hook.calls:
        yield "  called nowhere in the checkout"
    yield from (_engine_line(hook, each) for each in reading.engines)


def _engine_line(hook: NoiseHook, engine: EngineSource) -> str:
    norms = "; ".join(" < ".join(map(_short, each.bases)) for each in engine.norms) or "not found"
    verdict = "one of the named classes" if engine.matches else "none of the named classes"
    end = f": {verdict}" if hook.names and engine.norms else ""
    return f"  {engine.source.package} {engine.source.version}: norms of its Qwen2 are {norms}{end}"


def print_runs(runs: NoiseCodeRuns) -> None:
    out = console()
    fence = "without network and other processes" if runs.fenced else "with access to this machine's network"
    print_text(f"\nrun, {fence}:")
    for outcome in runs.outcomes:
        print_text(f"  {outcome.engine} {outcome.version}: {sentence(outcome)}")
        for step, total, sigma in outcome.constant_calls:
            call = f"a call with the constants step {step} of {total} and one sigma in the list"
            print_text(f"    {call} gets sigma {sigma:.3g}")
    for outcome in runs.outcomes:
        rows = [_row(outcome, call) for call in outcome.calls]
        table = table_of_rows(_HEADER, rows, f"{outcome.engine} {outcome.version}", flows=True)
        out.print()
        out.print(fitted(table, out.width))


def _row(outcome: AuditOutcome, call: HookCall) -> list[str]:
    return [
        str(call.step),
        f"{call.sigma:.3g}",
        f"{call.layers} of {outcome.norm_layers}",
        f"{call.elements} of {outcome.norm_elements}",
        f"{call.std:.2g}",
        f"{call.moved:.2g}" if call.moved >= 0 else "not finite",
    ]
