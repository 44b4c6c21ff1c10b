"""The noise of a recipe's arms as a table, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rlx.model import Span
from rlx.model.rounding import DTYPES, Survival, Weights
from rlx.table import Table, table_of_rows, to_markdown

if TYPE_CHECKING:
    from rlx.api.noise import NoisyArm


def answer(arms: Sequence[NoisyArm]) -> dict[str, Any]:
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


def _survives(arm: NoisyArm, span: Span) -> dict[str, dict[str, Survival]]:
    """By layer type and dtype; empty for a stage without noise."""
    kinds = arm.weights if span.sigma else ()
    return {kind: {dtype: arm.left(kind, dtype, span) for dtype in DTYPES} for kind in kinds}


def print_terminal(arms: Sequence[NoisyArm]) -> None:
    from rlx.cli.frame.output import console
    from rlx.cli.text.table_text import fitted

    out = console()
    for arm, kind in _by_kind(arms):
        out.print("\n".join(_sentences(arm, kind)), soft_wrap=True)
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
        yield f"Sigma follows the {follows.target} that the run measures; shown is where it begins."
    lost = arm.lost(kind)
    about = f"{arm.dtype} weights around {around(arm.weights[kind]):.3g}"
    if lost:
        steps = sum(span.steps for span in lost)
        largest = max(span.sigma for span in lost)
        yield f"On {about} rounding takes most of it at {steps} of them (sigma {largest:.3g} and less)."
    else:
        yield f"On {about} at least half of it survives rounding at each of them."


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
    """The median of how large the weights are."""
    ordered = sorted((abs(weight), count) for weight, count in weights.items())
    half = sum(weights.values()) / 2
    seen = 0
    for weight, count in ordered:
        seen += count
        if seen >= half:
            return weight
    return 0.0


def percent(share: float) -> str:
    """Round, but never to all or nothing where anybody would see the difference."""
    if share < 1e-6:
        return "0 %"
    text = f"{100 * share:.2g}" if share < 0.1 else f"{100 * share:.0f}"
    return f"{'<100' if text == '100' and share < 1 - 1e-6 else text} %"
