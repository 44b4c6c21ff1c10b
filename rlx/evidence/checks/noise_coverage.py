"""Check "coverage": each process that generates got noise, on the layers that the model has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.noise_by_step import BUILTIN, Application, noise_expectation
from rlx.evidence.run_evidence import Evidence, NoiseSettings
from rlx.evidence.verdict import CheckFinding, at_steps, counted, invalid, remark, unverified
from rlx.model import Link, NoiseExpectation, NoiseProcess, NoiseSchedule, Severity

_NORMS = ("rmsnorm",)
_CHECK_HOOK = "is the payload loaded in that process, and were its events/ copied?"
_CHECK_LAYERS = "compare the modules of the rollout's model with those that get noise: rlx plan RECIPE names them"
_MOST_SHOWN = 3


def check(given: CheckInput) -> Iterator[CheckFinding]:
    if given.noise is None:
        return
    evidence, (noise, found, _) = given.evidence, given.noise
    promise = noise_expectation(noise)
    if promise.expects(Link.REACHED) and found.noisy:
        yield from _without_record(found, promise)
        yield from _unplanned_processes(found, promise)
        yield from _recorded_twice(found)
    yield from _other_names(evidence, promise)
    yield from _other_numbers(evidence, found, promise)
    yield from _fewer_of_a_fork(noise, found)
    if promise.expects(Link.REACHED) and found.noisy and not promise.layers:
        yield _unknown_layers(noise, found)
    yield from lost_and_doubled_lines(evidence)


def _without_record(found: Application, promise: NoiseExpectation) -> Iterator[CheckFinding]:
    seen = {event.process.place for events in found.events.values() for event in events}
    if missing := [str(process) for process in promise.processes if process.place not in seen]:
        yield unverified(
            "RLX672",
            f"{len(missing)} of {len(promise.processes)} processes that should get noise left no record of it: "
            f"{first_names(missing, '; ')}",
            _CHECK_HOOK,
        )


def _unplanned_processes(found: Application, promise: NoiseExpectation) -> Iterator[CheckFinding]:
    planned = {process.place for process in promise.processes}
    seen = {event.process.place: event.process for _, event in found.recorded}
    if others := [str(process) for place, process in sorted(seen.items()) if place not in planned]:
        yield unverified(
            "RLX673",
            f"noise in {first_names(others, '; ')}, not among the processes of the plan ({len(planned)})",
            "check that the rollout is split as the recipe says, and that no other run wrote into these events/",
        )


def _recorded_twice(found: Application) -> Iterator[CheckFinding]:
    """Report two files that both record one process at the same steps; a restarted process repeats a single one."""
    steps: dict[tuple[int, tuple[int, int, int]], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for step, event in found.recorded:
        steps[event.attempt, event.process.place][event.source].add(step)
    for (_, place), by_source in steps.items():
        shared = {step for one, other in combinations(by_source.values(), 2) for step in one & other}
        if len(shared) > 1:
            files = first_names([*by_source], ", ")
            yield unverified(
                "RLX673",
                f"{len(by_source)} files record noise in {NoiseProcess(*place)} at {at_steps(shared)}: {files}",
                "check whether two replicas have one number, or another run wrote into these events/",
                min(shared),
            )


def _other_names(evidence: Evidence, promise: NoiseExpectation) -> Iterator[CheckFinding]:
    """Compare the names of layers with the architecture's, or without one between the processes."""
    named = [own_settings for own_settings in evidence.noise_settings if own_settings.layers]
    wanted = promise.layers or next((own_settings.layers for own_settings in named), ())
    for own_settings in named:
        without, more = missed(wanted, own_settings.layers), missed(own_settings.layers, wanted)
        if without or more:
            parts = [*_part("without noise on", without), *_part("with noise on", more)]
            than = "the model's" if promise.layers else "those of another process"
            yield _wrong(promise, f"{own_settings.process} has other noisy layers than {than}: {' and '.join(parts)}")
            return


def missed(wanted: Iterable[str], seen: Iterable[str]) -> list[str]:
    """List the layers of `wanted` that are not among those `seen`, however an engine names the model around them."""
    found = set(map(_short_name, seen))
    return sorted(name for name in wanted if _short_name(name) not in found)


def _part(what: str, names: list[str]) -> list[str]:
    return [f"{what} {first_names(names, ', ')}"] if names else []


def _short_name(name: str) -> str:
    """Remove an engine's name of the model around its layers: `language_model.model.layers.0.input_layernorm`."""
    head, mark, tail = f".{name}".partition(".layers.")
    return f"layers.{tail}" if mark else head.rpartition(".")[2]


def _other_numbers(evidence: Evidence, found: Application, promise: NoiseExpectation) -> Iterator[CheckFinding]:
    """Compare the layers and weights of each sync with the architecture's, else with its process's own settings."""
    own_settings = {settings.process.place: settings for settings in evidence.noise_settings}
    wrong: dict[int, str] = {}
    for step, event in found.recorded:
        layers, elements = _due(own_settings.get(event.process.place), promise)
        if layers is not None and event.layers != layers:
            wrong.setdefault(step, f"{counted(event.layers, 'layer')} at step {step}, where {layers} should get it")
        elif elements is not None and event.elements is not None and event.elements != elements:
            wrong.setdefault(step, f"{event.elements:,} weights at step {step}, where {elements:,} should get it")
    if wrong:
        step, words = next(iter(wrong.items()))
        where = f" ({at_steps(wrong)})" if len(wrong) > 1 else ""
        yield _wrong(promise, f"noise reached {words}{where}", step)


def _fewer_of_a_fork(noise: NoiseSchedule, found: Application) -> Iterator[CheckFinding]:
    """Compare the number of layers of a fork, which counts its layers and names none."""
    layers = len(noise_expectation(noise).layers)
    if noise.provider != BUILTIN or not layers:
        return
    other = {step: event.layers for step, event in found.all_events() if event.is_noisy and event.layers != layers}
    if other:
        step, reached = next(iter(other.items()))
        of = f" of {layers}" if reached < layers else ""
        yield unverified(
            "RLX674",
            f"noise reached {reached}{of} layers at {at_steps(other)}, where {layers} of the model should get it",
            _CHECK_LAYERS,
            step,
        )


def _due(own_settings: NoiseSettings | None, promise: NoiseExpectation) -> tuple[int | None, int | None]:
    """Return the numbers of layers and of their weights that must take noise; None: unknown."""
    if promise.layers:
        return len(promise.layers), promise.elements
    if own_settings is None:
        return None, None
    return len(own_settings.layers) or own_settings.layer_count, own_settings.elements


def _wrong(promise: NoiseExpectation, message: str, step: int | None = None) -> CheckFinding:
    if promise.layers and not promise.confirmed:
        message += "; the model's shapes are built in, and may be wrong themselves"
        return unverified("RLX674", message, "plan the run for its host, where the model's config.json is", step)
    return invalid("RLX674", message, _CHECK_LAYERS, step)


def _unknown_layers(noise: NoiseSchedule, found: Application) -> CheckFinding:
    """Report that it is not known which layers should have taken noise. Linear layers are never expected by name."""
    seen = counted(found.last_effect().layers, "layer") if found.effective else "these layers"
    if tuple(noise.layer_types) != _NORMS:
        message = (
            f"linear layers are not expected by name: it is not known whether {seen} are all that should get noise"
        )
        return remark("RLX678", Severity.NOTE, message)
    return unverified(
        "RLX678",
        f"the plan did not know the model's architecture: it is not known whether {seen} are all that should get noise",
        "plan the run for its host, where the model's config.json is, or set model.arch",
    )


def lost_and_doubled_lines(evidence: Evidence) -> Iterator[CheckFinding]:
    """Report lost lines of the record, and remark on lines that are there twice."""
    lost = {count.source: count.lost for count in evidence.records if count.lost}
    doubled = {count.source: count.doubled for count in evidence.records if count.doubled}
    if lost:
        message = (
            f"{counted(sum(lost.values()), 'line')} of the noise record are lost, by their numbers: {', '.join(lost)}"
        )
        yield unverified("RLX675", message, "was the disk full, or the file changed?")
    if doubled:
        lines = counted(sum(doubled.values()), "line")
        message = f"{lines} of the noise record occur twice, counted once: {', '.join(doubled)}"
        yield remark("RLX675", Severity.NOTE, message, "was the file copied onto itself?")


def first_names(names: list[str], separator: str) -> str:
    """Join the first names, and count the others."""
    more = len(names) - _MOST_SHOWN
    return separator.join(names[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
