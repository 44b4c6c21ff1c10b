"""The noise of a recipe's arms as a table, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rlx.plan import Span
from rlx.plan.rounding import DTYPES, Survival, Weights

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
    from rich.table import Table

    from rlx.cli.frame.output import console

    out = console()
    for arm, kind in _tables(arms):
        out.print("\n".join(_sentences(arm, kind)), soft_wrap=True)
        table = Table(*_header(arm), box=None, pad_edge=False, header_style="bold")
        for row in _rows(arm, kind):
            table.add_row(*row)
        out.print(table)
        out.print()


def markdown_text(arms: Sequence[NoisyArm]) -> str:
    return "\n".join(_markdown(arm, kind) for arm, kind in _tables(arms))


def _markdown(arm: NoisyArm, kind: str) -> str:
    header = _header(arm)
    rows = [header, ["---"] * len(header), *_rows(arm, kind)]
    return " ".join(_sentences(arm, kind)) + "\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _tables(arms: Sequence[NoisyArm]) -> Iterator[tuple[NoisyArm, str]]:
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


def _header(arm: NoisyArm) -> list[str]:
    return ["steps", "sigma", *(f"{dtype} *" if dtype == arm.dtype else dtype for dtype in DTYPES)]


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
