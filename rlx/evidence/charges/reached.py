"""Link "reached": did every process that generates get noise, on the layers that the model has?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.noise_by_step import Application
from rlx.evidence.charges.promised_noise import BUILTIN, promise_of
from rlx.evidence.run_evidence import Evidence, NoiseSettings
from rlx.evidence.verdict import Charge, at_steps, counted, invalid, remark, unverified
from rlx.model import Link, NoiseProcess, NoisePromise, NoiseSchedule, Severity

_NORMS = ("rmsnorm",)
_CHECK_HOOK = "is the payload loaded in that process, and did its events/ come along?"
_CHECK_LAYERS = "which modules does the rollout's model have? rlx plan RECIPE names those that take noise"
_MOST_SHOWN = 3


def check(given: CheckInput) -> Iterator[Charge]:
    if given.noise is None:
        return
    evidence, (noise, found, _) = given.evidence, given.noise
    promise = promise_of(noise)
    if promise.promises(Link.REACHED) and found.noisy:
        yield from _silent(found, promise)
        yield from _not_promised(found, promise)
        yield from _told_twice(found)
    yield from _other_names(evidence, promise)
    yield from _other_numbers(evidence, found, promise)
    yield from _fewer_of_a_fork(noise, found)
    if promise.promises(Link.REACHED) and found.noisy and not promise.layers:
        yield _unknown_layers(noise, found)
    yield from lines(evidence)


def _silent(found: Application, promise: NoisePromise) -> Iterator[Charge]:
    spoke = {event.process.place for events in found.events.values() for event in events}
    if silent := [str(process) for process in promise.processes if process.place not in spoke]:
        yield unverified(
            "RLX672",
            f"{len(silent)} of {len(promise.processes)} processes that should take noise left no record of any: "
            f"{some(silent, '; ')}",
            _CHECK_HOOK,
        )


def _not_promised(found: Application, promise: NoisePromise) -> Iterator[Charge]:
    planned = {process.place for process in promise.processes}
    spoke = {event.process.place: event.process for _, event in found.recorded}
    if others := [str(process) for place, process in sorted(spoke.items()) if place not in planned]:
        yield unverified(
            "RLX673",
            f"noise in {some(others, '; ')}, not among the processes of the plan ({len(planned)})",
            "is the rollout split as the recipe says, or did another run write into these events/?",
        )


def _told_twice(found: Application) -> Iterator[Charge]:
    """Charge two files that both tell of one process at the same steps; one that begins anew repeats a single one."""
    steps: dict[tuple[int, tuple[int, int, int]], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for step, event in found.recorded:
        steps[event.attempt, event.process.place][event.source].add(step)
    for (_, place), by_source in steps.items():
        shared = {step for one, other in combinations(by_source.values(), 2) for step in one & other}
        if len(shared) > 1:
            files = some([*by_source], ", ")
            yield unverified(
                "RLX673",
                f"{len(by_source)} files tell of noise in {NoiseProcess(*place)} at {at_steps(shared)}: {files}",
                "do two replicas take themselves for one, or did another run write into these events/?",
                min(shared),
            )


def _other_names(evidence: Evidence, promise: NoisePromise) -> Iterator[Charge]:
    """Hold the layers by name against the architecture's; without one, those of the processes against each other."""
    named = [told for told in evidence.noise_settings if told.layers]
    wanted = promise.layers or next((told.layers for told in named), ())
    for told in named:
        without, more = missed(wanted, told.layers), missed(told.layers, wanted)
        if without or more:
            parts = [*_part("without noise on", without), *_part("with noise on", more)]
            than = "the model's" if promise.layers else "those of another process"
            yield _wrong(promise, f"{told.process} has other noisy layers than {than}: {' and '.join(parts)}")
            return


def missed(wanted: Iterable[str], seen: Iterable[str]) -> list[str]:
    """Name the layers of `wanted` that are not among those `seen`, however an engine calls the model around them."""
    found = set(map(_short_name, seen))
    return sorted(name for name in wanted if _short_name(name) not in found)


def _part(what: str, names: list[str]) -> list[str]:
    return [f"{what} {some(names, ', ')}"] if names else []


def _short_name(name: str) -> str:
    """Leave out how an engine calls the model around its layers: `language_model.model.layers.0.input_layernorm`."""
    head, mark, tail = f".{name}".partition(".layers.")
    return f"layers.{tail}" if mark else head.rpartition(".")[2]


def _other_numbers(evidence: Evidence, found: Application, promise: NoisePromise) -> Iterator[Charge]:
    """Hold the layers and weights of each sync against the architecture's, else against what its process said."""
    told = {settings.process.place: settings for settings in evidence.noise_settings}
    wrong: dict[int, str] = {}
    for step, event in found.recorded:
        layers, elements = _due(told.get(event.process.place), promise)
        if layers is not None and event.layers != layers:
            wrong.setdefault(step, f"{counted(event.layers, 'layer')} at step {step}, where {layers} should take it")
        elif elements is not None and event.elements is not None and event.elements != elements:
            wrong.setdefault(step, f"{event.elements:,} weights at step {step}, where {elements:,} should take it")
    if wrong:
        step, words = next(iter(wrong.items()))
        where = f" ({at_steps(wrong)})" if len(wrong) > 1 else ""
        yield _wrong(promise, f"noise reached {words}{where}", step)


def _fewer_of_a_fork(noise: NoiseSchedule, found: Application) -> Iterator[Charge]:
    """A fork counts its layers and names none, so that the plan can be held against their number alone."""
    layers = len(promise_of(noise).layers)
    if noise.provider != BUILTIN or not layers:
        return
    other = {step: event.layers for step, event in found.all_events() if event.is_noisy and event.layers != layers}
    if other:
        step, reached = next(iter(other.items()))
        of = f" of {layers}" if reached < layers else ""
        yield unverified(
            "RLX674",
            f"noise reached {reached}{of} layers at {at_steps(other)}, where {layers} of the model should take it",
            _CHECK_LAYERS,
            step,
        )


def _due(told: NoiseSettings | None, promise: NoisePromise) -> tuple[int | None, int | None]:
    """The numbers of layers and of their weights that must take noise; None: nobody said."""
    if promise.layers:
        return len(promise.layers), promise.elements
    if told is None:
        return None, None
    return len(told.layers) or told.layer_count, told.elements


def _wrong(promise: NoisePromise, message: str, step: int | None = None) -> Charge:
    if promise.layers and not promise.confirmed:
        message += "; the model's shapes are from memory, and may be wrong themselves"
        return unverified("RLX674", message, "plan the run for its host, where the model's config.json is", step)
    return invalid("RLX674", message, _CHECK_LAYERS, step)


def _unknown_layers(noise: NoiseSchedule, found: Application) -> Charge:
    """Say that nothing tells which layers should have taken noise. Linear layers are never promised by name."""
    seen = counted(found.last_effect().layers, "layer") if found.effective else "these layers"
    if tuple(noise.layer_types) != _NORMS:
        message = f"linear layers are not promised by name: nothing tells whether {seen} are all that should take noise"
        return remark("RLX678", Severity.NOTE, message)
    return unverified(
        "RLX678",
        f"the plan did not know the model's architecture: nothing tells whether {seen} are all that should take noise",
        "plan the run for its host, where the model's config.json is, or set model.arch",
    )


def lines(evidence: Evidence) -> Iterator[Charge]:
    """Charge lines of the record that are lost, and remark on those that are there twice."""
    lost = {count.source: count.lost for count in evidence.records if count.lost}
    doubled = {count.source: count.doubled for count in evidence.records if count.doubled}
    if lost:
        message = f"{counted(sum(lost.values()), 'line')} of the noise record lost, by their numbers: {', '.join(lost)}"
        yield unverified("RLX675", message, "was the disk full, or the file changed?")
    if doubled:
        lines = counted(sum(doubled.values()), "line")
        message = f"{lines} of the noise record twice, taken once: {', '.join(doubled)}"
        yield remark("RLX675", Severity.NOTE, message, "was the file copied onto itself?")


def some(names: list[str], separator: str) -> str:
    """Join the first names, and count the others."""
    more = len(names) - _MOST_SHOWN
    return separator.join(names[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
