"""Render what an audit of noise code found: as sentences and tables, or as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.api.auditing import EngineSource, Reading, Runs
    from rlx.audit import HookCall, NoiseHook, Outcome, Resolved

_COMMIT = 12


def answer(reading: Reading, runs: Runs | None) -> dict[str, Any]:
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


def _model_answer(outcome: Outcome) -> dict[str, Any]:
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


def sentence(outcome: Outcome) -> str:
    """Say in one line what the code did to this model."""
    if not outcome.noisy:
        return f"its schedule gives no step a sigma above 0: 0 of {outcome.norm_layers} norm layers changed"
    if not outcome.reached:
        return f"reaches 0 of {outcome.norm_layers} norm layers, 0 elements changed{_if_told(outcome.told)}"
    strongest = max(outcome.noisy, key=lambda call: (call.layers, call.sigma))
    classes = ", ".join(f"{number} {_short(name)}" for name, number in strongest.classes.items())
    reached = f"{strongest.layers} layers ({classes}), {strongest.elements} elements"
    return f"reaches {reached}; the model has {outcome.norm_layers} norm layers of {outcome.norm_elements} elements"


def _if_told(told: HookCall | None) -> str:
    return f"; told of the class that is there: {told.layers} layers, {told.elements} elements" if told else ""


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def question(hook: NoiseHook, python: str) -> str:
    return f"Execute {hook.file} of {hook.checkout} ({version(hook)}) with {python}?"


def version(hook: NoiseHook) -> str:
    return f"commit {hook.commit[:_COMMIT]}" if hook.commit else f"no commit, SHA-256 {hook.digest[:_COMMIT]}"


def print_reading(reading: Reading) -> None:
    from rlx.cli.frame.output import print_text

    for line in _reading_lines(reading):
        print_text(line)


def _reading_lines(reading: Reading) -> Iterator[str]:
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
    verdict = "a class that is named" if engine.matches else "none of the named classes"
    end = f": {verdict}" if hook.names and engine.norms else ""
    return f"  {engine.source.package} {engine.source.version}: norms of its Qwen2 are {norms}{end}"


def print_runs(runs: Runs) -> None:
    from rlx.cli.frame.output import console
    from rlx.cli.text.table_text import fitted
    from rlx.table import table_of_rows

    out = console()
    fence = "without network or sight of other processes" if runs.fenced else "with this machine's network in reach"
    out.print(f"\nrun, {fence}:", soft_wrap=True)
    for outcome in runs.outcomes:
        out.print(f"  {outcome.engine} {outcome.version}: {sentence(outcome)}", soft_wrap=True)
        for line in _constant_lines(outcome):
            out.print(line, soft_wrap=True)
    for outcome in runs.outcomes:
        rows = [_row(outcome, call) for call in outcome.calls]
        table = table_of_rows(_HEADER, rows, f"{outcome.engine} {outcome.version}", flows=True)
        out.print()
        out.print(fitted(table, out.width))


_HEADER = ("from step", "sigma", "layers", "elements", "std", "log p moves by")


def _row(outcome: Outcome, call: HookCall) -> list[str]:
    return [
        str(call.step),
        f"{call.sigma:.3g}",
        f"{call.layers} of {outcome.norm_layers}",
        f"{call.elements} of {outcome.norm_elements}",
        f"{call.std:.2g}",
        f"{call.moved:.2g}" if call.moved >= 0 else "not finite",
    ]


def _constant_lines(outcome: Outcome) -> Iterator[str]:
    """What the scheduler says to calls of the checkout that always ask for the same step."""
    for step, total, sigma in outcome.constant_calls:
        yield f"    a call with the constants step {step} of {total} and one sigma in the list gets sigma {sigma:.3g}"
