"""Check that an arm without noise had none: by its log, by digests of its weights, and by the probe.

The same processes as in a noisy arm digest the weights that take noise there, at each sync, and the same probe queries
the engine that generates. Any change is noise, or equally bad in a control, so it is invalid. Only a probe on a device
that is not deterministic is no proof: the variation of its scores is known from one pair only. A watch that was planned
and left no record shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.checks import noise_coverage, noise_removal, noise_response, noise_settings, weight_digests
from rlx.evidence.checks.check_input import Basis, CheckInput
from rlx.evidence.checks.noise_by_step import training_steps
from rlx.evidence.run_evidence import LOG, ROLLOUT, VALIDATION, Evidence, NoiseEvent
from rlx.evidence.verdict import CheckFinding, at_steps, contradiction, counted, invalid, unverified
from rlx.model import NoiseExpectation, NoiseProcess

_WHAT_WRITES = "what writes to the rollout's weights: a fork with its own noise, or the payload of another arm?"


def check_watch(given: CheckInput) -> Iterator[CheckFinding]:
    """Report noise that was observed, and missing observations that were planned. Recorded noise is RLX605 already."""
    evidence, promise = given.evidence, given.expectations.watch
    if given.noise is not None or promise is None:
        return
    events = digested(evidence)
    yield from noise_settings.other_settings(evidence, promise)
    yield from _changed(events)
    yield from _responded(evidence)
    yield from weight_digests.unlike(evidence, events)
    yield from _unwatched(evidence, promise)
    yield from _never_probed(evidence, promise)
    yield from noise_removal.not_shown(evidence, promise)
    yield from noise_settings.without_settings(evidence, events, "weights were watched")
    yield from _other_layers(evidence, promise)
    yield from noise_response.from_cache(evidence.probes)
    yield from noise_response.missing(evidence.probes)
    yield from noise_coverage.lost_and_doubled_lines(evidence)


def digested(evidence: Evidence) -> list[NoiseEvent]:
    """Return the records with a digest of the weights."""
    return [event for event in evidence.noise if event.source != LOG and event.digest_after]


def saw_noise(evidence: Evidence) -> bool:
    """Tell whether any observation shows noise."""
    return any(_is_changed(event) for event in digested(evidence)) or bool(_noisy_results(evidence))


def _is_changed(event: NoiseEvent) -> bool:
    """Tell whether weights differ from what the sync sent, or changed between two syncs."""
    brought = (event.digest_clean, event.digest_sent)
    others = any(digest not in ("", event.digest_after) for digest in brought)
    moved = event.digest_before and event.digest_left not in ("", event.digest_before)
    return bool(others or moved or event.changed)


def _changed(events: list[NoiseEvent]) -> Iterator[CheckFinding]:
    changed = [event for event in events if _is_changed(event) and not event.is_noisy]
    if changed:
        steps = [event.step for event in changed if event.step is not None]
        yield invalid(
            "RLX605",
            f"this arm was planned without noise, and the weights that generate changed at {at_steps(steps)} after "
            f"they had been received ({changed[0].process})",
            _WHAT_WRITES,
            min(steps),
        )


def _noisy_results(evidence: Evidence) -> list[noise_response.ProbeResult]:
    return [
        result
        for phase in (ROLLOUT, VALIDATION)
        for result in noise_response.probe_results(evidence, phase)
        if result.sees_noise
    ]


def _responded(evidence: Evidence) -> Iterator[CheckFinding]:
    noisy_results = _noisy_results(evidence)
    # A floor of 0: the device repeats itself bit by bit.
    sure = [result.pair.step for result in noisy_results if result.pair.floor == 0]
    says = "the engine that generates scores differently than on the clean weights of the same sync"
    if sure:
        message = f"this arm was planned without noise, and {says}, at {at_steps(sure)}"
        yield invalid("RLX605", message, _WHAT_WRITES, min(sure))
    elif noisy_results:
        steps = [result.pair.step for result in noisy_results]
        message = f"this arm was planned without noise, and {says}, at {at_steps(steps)}; this device is not "
        yield contradiction("RLX681", f"{message}deterministic, but varies less than that", _WHAT_WRITES, min(steps))


def _unwatched(evidence: Evidence, promise: NoiseExpectation) -> Iterator[CheckFinding]:
    """Report steps before the first digest of a process, and after its last.

    Between them nothing is missed: lost lines show by their numbers, and a trainer that warms up its critic syncs
    nothing meanwhile. If the plan lists no processes, those with records are all.
    """
    seen = _steps_by_place(evidence)
    processes = promise.processes or tuple(NoiseProcess(*place) for place in sorted(seen)) or (NoiseProcess(),)
    steps = training_steps(evidence)
    bare = {process: _outside(steps, seen.get(process.place, set())) for process in processes}
    if unseen_processes := [process for process in processes if bare[process]]:
        unseen = [step for process in unseen_processes for step in bare[process]]
        yield unverified(
            "RLX672",
            f"{len(unseen_processes)} of {len(processes)} processes that are watched for noise left no digest of "
            "their weights "
            f"at {at_steps(unseen)}: {noise_coverage.first_names(list(map(str, unseen_processes)), '; ')}",
            "check that the payload is loaded in that process, and that its events/ were copied",
            min(unseen),
        )


def _outside(steps: list[int], seen: set[int]) -> list[int]:
    return [step for step in steps if not seen or not min(seen) <= step <= max(seen)]


def _steps_by_place(evidence: Evidence) -> dict[tuple[int, int, int], set[int]]:
    steps: dict[tuple[int, int, int], set[int]] = {}
    for event in digested(evidence):
        if event.phase == ROLLOUT and event.step is not None:
            steps.setdefault(event.process.place, set()).add(event.step)
    return steps


def _never_probed(evidence: Evidence, promise: NoiseExpectation) -> Iterator[CheckFinding]:
    """Report a planned probe without any result. Single probes may fail."""
    steps = training_steps(evidence)
    if promise.probed and steps and not _probed_at(evidence):
        yield unverified(
            "RLX683",
            "nothing shows that the engine that generates had no noise: the plan has a probe, and it has no result",
            "are records of the run lost, or did every probe fail?",
            steps[0],
        )


def _probed_at(evidence: Evidence) -> set[int]:
    return {
        result.pair.step for result in noise_response.probe_results(evidence, ROLLOUT) if result.pair.delta is not None
    }


def _other_layers(evidence: Evidence, promise: NoiseExpectation) -> Iterator[CheckFinding]:
    """Report layers of the model without a watch, unless the model's shapes are only built in."""
    named = [own for own in evidence.noise_settings if own.layers]
    missed = next((names for own in named if (names := noise_coverage.missed(promise.layers, own.layers))), [])
    if missed and promise.confirmed:
        yield unverified(
            "RLX674",
            f"{len(missed)} of {counted(len(promise.layers), 'layer')} that should be watched for noise were not: "
            f"{noise_coverage.first_names(missed, ', ')}",
            "check the modules of the rollout's model: rlx plan RECIPE says how many should be watched",
        )


def watch_sentence(evidence: Evidence) -> str:
    """Write `by digest at 20 and by the probe at 20 of 20 steps`: how the run shows that it had no noise."""
    steps = set(training_steps(evidence))
    digests = {step for steps_of in _steps_by_place(evidence).values() for step in steps_of}
    ways = {"digest": digests & steps, "the probe": _probed_at(evidence) & steps}
    shown = [f"by {way} at {len(seen)}" for way, seen in ways.items() if seen]
    return f"{' and '.join(shown)} of {counted(len(steps), 'step')}" if shown else ""


def check_unplanned_noise(given: CheckInput) -> Iterator[CheckFinding]:
    if given.basis in Basis.UNPLANNED:
        yield from _only_in_words(given.evidence)
    elif given.noise is None:
        yield from _noise_in_log(given.evidence)


def _noise_in_log(evidence: Evidence) -> Iterator[CheckFinding]:
    """Report noise in an arm that was planned without any."""
    noisy = [event for event in evidence.noise if event.is_noisy]
    if not noisy:
        if said := _only_announced(evidence):
            yield unverified(
                "RLX619",
                f"this arm was planned without noise, and its log announces {said}, but no line says that it was added",
                "does its recipe, or a payload left from another arm, switch AQN on?",
            )
        return
    steps = [event.step for event in noisy if event.step is not None]
    yield invalid(
        "RLX605",
        f"this arm was planned without noise, but {noisy[0].layers} layers got noise"
        + (f" at {at_steps(steps)}" if steps else f" ({len(noisy)} lines)"),
        "does its recipe, or a payload left from another arm, switch AQN on?",
        min(steps, default=None),
    )


def _only_in_words(evidence: Evidence) -> Iterator[CheckFinding]:
    """Report a log without a recipe that announces noise and shows none."""
    if not any(event.is_noisy for event in evidence.noise) and (said := _only_announced(evidence)):
        yield unverified(
            "RLX619",
            f"its log announces noise ({said}), but no line says that it was added: probably an arm without noise",
            "import it with --recipe, which states what was planned",
        )


def _only_announced(evidence: Evidence) -> str:
    """Find noise that was intended: by a fork that fails to add it, or by code with unknown log lines."""
    sigmas = [said.sigma for said in evidence.announced if said.sigma > 0 and (said.step or 0) <= evidence.last_step]
    without_layers = [event.sigma for event in evidence.noise if event.sigma != 0]
    return f"sigma {max(sigmas):g}" if sigmas else "it for 0 layers" if without_layers else ""
