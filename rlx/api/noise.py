"""Compute the noise of a recipe before anything runs: its schedule, and what rounding leaves of it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import frexp
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rlx.errors import RlxError, UsageError
from rlx.local_files import open_regular, parse_json

if TYPE_CHECKING:
    from rlx.api.recipes import Recipe
    from rlx.audit import AuditOutcome, NoiseHook, PackageSource, Resolved
    from rlx.model import NoiseSchedule, SigmaSteps
    from rlx.model.rounding import Survival, Weights
    from rlx.recipe import ResolvedRecipe

_HALF = 0.5
# Eight bytes of length, the header as JSON, then the tensors: https://huggingface.co/docs/safetensors.
_LENGTH_BYTES, _LONGEST_HEADER, _LONGEST_NORM = 8, 32 << 20, 4 << 20
_MOST_STEPS = 5000


@dataclass(frozen=True, slots=True)
class NoisyArm:
    """`dtype`: that of the weights that generate; `weights`: those that take the noise, by layer type."""

    name: str
    dtype: str
    noise: NoiseSchedule
    weights: Mapping[str, Weights]

    @property
    def noisy_steps(self) -> int:
        """Count the steps that add noise."""
        return sum(sigma > 0 for sigma in self.noise.sigmas)

    def left(self, kind: str, dtype: str, span: SigmaSteps) -> Survival:
        """Return what rounding leaves of the noise of these steps in weights of this kind."""
        from rlx.model.rounding import survival

        return survival(span.sigma, dtype, self.weights[kind])

    def lost(self, kind: str) -> list[SigmaSteps]:
        """Return the stretches of which rounding takes more than half."""
        noisy = (span for span in self.noise.spans if span.sigma)
        return [span for span in noisy if self.left(kind, self.dtype, span).std < _HALF * span.sigma]


def noise_schedule(
    recipe: Recipe, arms: Sequence[str] = (), *, sets: Sequence[str] = (), weights: Weights | None = None
) -> list[NoisyArm]:
    """Compute the noise of these arms, by default of all that have some.

    `.noise.sigmas` has one standard deviation a training step, in the unit of the weights, 0 where there is none.
    `weights` are a model's own norm weights as `norm_weights` reads them, instead of the typical value 1. Raises
    UsageError where no arm has noise, or the length of the run is not known.
    """
    from rlx.api.recipes import recipe_file

    file = recipe_file(recipe, sets)
    resolved = [file.resolve(name) for name in dict.fromkeys(arms or file.arms)]
    noisy = [_noisy_arm(one, weights) for one in resolved if one.recipe.aqn is not None]
    if not noisy:
        raise UsageError(
            f"{getattr(recipe, 'path', recipe)}: no noise in {', '.join(one.arm for one in resolved)}",
            "give an arm an aqn section",
        )
    return noisy


def _noisy_arm(resolved: ResolvedRecipe, norms: Weights | None) -> NoisyArm:
    from rlx.backends.protocol import load_backend
    from rlx.hosts import local_site
    from rlx.model.rounding import TYPICAL

    noise = load_backend(resolved.recipe.backend.kind).plan(resolved, local_site()).expectations.noise
    if noise is None:
        raise UsageError(f"arm {resolved.arm}: the length of the run is not known", "give data.train_rows")
    if not noise.sigmas:
        raise UsageError(
            f"arm {resolved.arm}: the run has no step that noise could be on", "rlx validate RECIPE says why"
        )
    weights: dict[str, Weights] = {kind: {TYPICAL[kind]: 1} for kind in noise.layer_types}
    if norms and "rmsnorm" in weights:
        weights["rmsnorm"] = norms
    return NoisyArm(resolved.arm, resolved.recipe.model.dtype, noise, weights)


def norm_weights(folder: str | Path) -> Weights:
    """Read the norm weights of a model folder: value -> how often, one value for all that rounding treats alike.

    Rounding asks only for the power of two below a weight, and whether it is one itself. Raises RlxError where no
    weights can be read.
    """
    folder = Path(folder)
    counts: Counter[float] = Counter()
    for path in sorted(folder.glob("*.safetensors")):
        counts += _counted(path)
    if not counts:
        raise RlxError(f"{folder}: no norm weights in *.safetensors files", "give the folder of the model's weights")
    return counts


def _counted(path: Path) -> Counter[float]:
    counts: Counter[float] = Counter()
    try:
        with open_regular(path) as stream:
            for values in _norms(stream):
                for value, count in Counter(values).items():
                    counts[_binade(value)] += count
    except (OSError, ValueError, KeyError, TypeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise RlxError(f"{path}: no weights can be read ({reason})", "give a whole model folder") from None
    return counts


def _binade(weight: float) -> float:
    """Return the stretch between the powers of two around it; the gap below a power of two is
    halved.
    """
    mantissa, exponent = frexp(abs(weight))
    return abs(weight) if mantissa in (0.0, 0.5) else 0.75 * 2.0**exponent


def _norms(stream: BinaryIO) -> Iterator[list[float]]:
    """Yield the values of each norm weight: vectors that are called so."""
    length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
    header = parse_json(stream.read(length)) if length <= _LONGEST_HEADER else None
    if not isinstance(header, dict):
        raise ValueError("this is no safetensors file")
    for name, tensor in header.items():
        if "norm" in name and name.endswith(".weight") and len(tensor["shape"]) == 1:
            first, last = tensor["data_offsets"]
            if not 0 <= first <= last <= first + _LONGEST_NORM:
                raise ValueError(f"{name[:100]} is no vector of norm weights")
            stream.seek(_LENGTH_BYTES + length + first)
            yield _values(stream.read(last - first), tensor["dtype"])


def _values(data: bytes, dtype: str) -> list[float]:
    import numpy

    if dtype == "BF16":
        # The upper half of a float32.
        numbers: Any = (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    else:
        numbers = numpy.frombuffer(data, {"F16": "<f2", "F32": "<f4"}[dtype])
    return [float(number) for number in numbers]


@dataclass(frozen=True, slots=True)
class AuditSchedule:
    """The schedule that the noise code is run with: by default that of QeRL's scripts."""

    sigma_start: float = 1e-2
    sigma_end: float = 1e-4
    stages: int = 10
    steps: int = 100


@dataclass(frozen=True, slots=True)
class EngineSource:
    """One version of a package: the classes of its Qwen2's norms, and whether the code's names mean one of them."""

    source: PackageSource
    norms: list[Resolved]
    matches: bool


@dataclass(frozen=True, slots=True)
class NoiseCodeReading:
    """The result of reading the source. `matched`: what each class that the code names means, by version."""

    hook: NoiseHook
    matched: list[Resolved]
    engines: list[EngineSource]


@dataclass(frozen=True, slots=True)
class NoiseCodeRuns:
    """The result of running the code. `fenced`: without network, and without access to other processes."""

    python: str
    fenced: bool
    outcomes: list[AuditOutcome]


def read_noise_code(
    checkout: Path, *, file: str | None = None, python: str | None = None, sources: Sequence[Path] = ()
) -> NoiseCodeReading:
    """Find the noise code of a checkout and say which class each name means. Executes nothing of it.

    `sources` are folders with packages, unpacked wheels for example; the packages of `python` are read after
    them. Raises RlxError where the checkout has no noise code that rlx can call.
    """
    from rlx.audit import engine_classes, find_hook, matched_classes, packages_of, sources_in

    hook = find_hook(checkout, file)
    found = sources_in([*sources, *packages_of(python or sys.executable)])
    matched = matched_classes(hook, found)
    wanted = {resolved.bases[0] for resolved in matched}
    engines = [(each, engine_classes(each)) for each in found]
    return NoiseCodeReading(
        hook, matched, [EngineSource(each, norms, _means(wanted, norms)) for each, norms in engines]
    )


def _means(wanted: set[str], norms: list[Resolved]) -> bool:
    """Whether `isinstance` would hold for one of these classes, by what each inherits from."""
    return any(wanted & set(norm.bases) for norm in norms)


def run_noise_code(
    hook: NoiseHook, *, python: str | None = None, schedule: AuditSchedule | None = None, time_limit: float = 300
) -> NoiseCodeRuns:
    """Execute the noise code beside transformers' Qwen2, and vLLM's where `python` has vLLM.

    Each engine has a process of its own, which is ended after `time_limit` seconds. Raises RlxError where `python`
    lacks transformers or the code leaves no answer.
    """
    from rlx.audit import AuditRequest, find_fence, packages_of, run_apart, sources_in

    asked, interpreter, fence = schedule or AuditSchedule(), python or sys.executable, find_fence()
    _check(asked)
    there = {source.package for source in sources_in(packages_of(interpreter))}
    if "transformers" not in there:
        raise UsageError(f"{interpreter}: transformers is not installed there", "name an environment with --python")
    orders = [
        AuditRequest(engine, interpreter, asked.sigma_start, asked.sigma_end, asked.stages, asked.steps, time_limit)
        for engine in ("transformers", "vllm")
        if engine in there
    ]
    return NoiseCodeRuns(interpreter, fence.closed, [run_apart(hook, order, fence) for order in orders])


def _check(schedule: AuditSchedule) -> None:
    if schedule.stages < 3 or not 0 < schedule.steps <= _MOST_STEPS:
        raise UsageError(
            f"{schedule.stages} stages in {schedule.steps} steps: no schedule",
            f"three stages or more, in up to {_MOST_STEPS} steps",
        )
    if not (schedule.sigma_start > 0 and schedule.sigma_end > 0):
        raise UsageError("sigma is a standard deviation above 0", "the defaults are those of QeRL's scripts")
