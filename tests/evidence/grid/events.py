"""Edits of the records that the processes which generate write: settings, syncs, looks of the probe."""

from __future__ import annotations

import copy
import math
import shutil

from rlx.model import Link
from tests.evidence.edits import Recorded
from tests.evidence.grid.cases import Source, caught, honest, unseen
from tests.evidence.grid.run_pair import Line, RunDirectory, RunPair

EVENTS = Source.EVENTS


# asked


@caught(EVENTS, Link.ASKED, "invalid", "RLX670", twin="settings-with-numbers-written-otherwise")
def settings_of_another_seed(pair: RunPair) -> None:
    pair.aqn.told()[0]["seed"] = 7


@honest(EVENTS, Link.ASKED)
def settings_with_numbers_written_otherwise(pair: RunPair) -> None:
    """As another JSON writer has them: whole numbers with a point, the keys in another order."""
    told = pair.aqn.told()[0]
    told.update(seed=1.0, stages=5.0, total_steps=20.0)
    pair.aqn.events[0] = dict(reversed(told.items()))


@caught(EVENTS, Link.ASKED, "invalid", "RLX670", twin="settings-with-more-fields")
def settings_from_another_file(pair: RunPair) -> None:
    pair.aqn.told()[0]["digest"] = "0123456789abcdef"


@caught(EVENTS, Link.ASKED, "unverified", "RLX671", twin="settings-with-more-fields")
def settings_without_their_content(pair: RunPair) -> None:
    told = pair.aqn.told()[0]
    pair.aqn.events[0] = {key: told[key] for key in ("kind", "seq", "process", "time")}


@honest(EVENTS, Link.ASKED)
def settings_with_more_fields(pair: RunPair) -> None:
    """As a later payload may write."""
    pair.aqn.told()[0].update(device="npu:0", torch="2.13.0", written_by={"pid": 32745})


@caught(EVENTS, Link.ASKED, "unverified", "RLX671", twin="last-record-lost")
def settings_lost(pair: RunPair) -> None:
    del pair.aqn.events[0]


@honest(EVENTS, Link.ASKED)
def last_record_lost(pair: RunPair) -> None:
    """A process is killed before its last line, which is that of no step."""
    del pair.aqn.events[-1]


# reached


@caught(EVENTS, Link.REACHED, "invalid", "RLX674", twin="layers-below-a-wrapper")
def noise_on_four_layers_of_five(pair: RunPair) -> None:
    told = pair.aqn.told()[0]
    told.update(layers=told["layers"][:4], elements=256, reached={"layer_types": {"rmsnorm": 4}})
    for event in _noisy(pair.aqn):
        event.update(layers=4, skipped=1, elements=256, changed=256)


@honest(EVENTS, Link.REACHED)
def layers_below_a_wrapper(pair: RunPair) -> None:
    """As a model for pictures and text names the norms of its language model."""
    told = pair.aqn.told()[0]
    told["layers"] = [f"model.language_model.{name.removeprefix('model.')}" for name in told["layers"]]


@caught(EVENTS, Link.REACHED, "invalid", "RLX674", twin="layers-in-another-order")
def noise_on_as_many_other_layers(pair: RunPair) -> None:
    told = pair.aqn.told()[0]
    told["layers"] = [name.replace("input_layernorm", "self_attn.q_norm") for name in told["layers"]]


@honest(EVENTS, Link.REACHED)
def layers_in_another_order(pair: RunPair) -> None:
    pair.aqn.told()[0]["layers"].reverse()


@caught(EVENTS, Link.REACHED, "invalid", "RLX674", twin="several-syncs-a-step")
def a_layer_less_at_one_step(pair: RunPair) -> None:
    for event in pair.aqn.lines("noise", "rollout", 12):
        event.update(layers=4, skipped=1, elements=256, changed=256)


@caught(EVENTS, Link.REACHED, "unverified", "RLX673", twin="process-begun-anew")
def two_processes_that_take_themselves_for_one(pair: RunPair) -> None:
    """Two replicas, each of which calls itself the first and draws its noise."""
    pair.aqn.events += _by_another_writer(pair.aqn.events)


@honest(EVENTS, Link.REACHED)
def process_begun_anew(pair: RunPair) -> None:
    """A worker dies after its sync for step 12 and begins anew, in a file of its own."""
    events = pair.aqn.events
    at = events.index(pair.aqn.lines("noise", "rollout", 12)[0])
    again = _by_another_writer([events[0], *events[at:]])
    again[1]["digest_before"] = ""
    pair.aqn.events = [*events[: at + 1], *again]


# drawn


@caught(EVENTS, Link.DRAWN, "invalid", "RLX676", twin="several-syncs-a-step")
def noise_of_the_step_before(pair: RunPair) -> None:
    for event, before in zip(
        pair.aqn.lines("noise", "rollout", 13), pair.aqn.lines("noise", "rollout", 12), strict=False
    ):
        event["fingerprint"] = before["fingerprint"]


@honest(EVENTS, Link.DRAWN)
def several_syncs_a_step(pair: RunPair) -> None:
    """The weights of a step are sent twice: the same noise again, on the same clean weights."""
    events = pair.aqn.events
    (sync,) = pair.aqn.lines("noise", "rollout", 13)
    look = pair.aqn.lines("probe", "rollout", 13)[0]
    again = copy.deepcopy([sync, look])
    again[0].update(digest_before=sync["digest_after"], restored=5, time=sync["time"] + 0.5)
    at = events.index(look) + 1
    events[at:at] = again
    number_again(pair.aqn)


@caught(EVENTS, Link.DRAWN, "invalid", "RLX677", twin="noise-a-little-larger-than-asked")
def noise_of_twice_the_variance(pair: RunPair) -> None:
    _times(pair.aqn, math.sqrt(2))


@honest(EVENTS, Link.DRAWN)
def noise_a_little_larger_than_asked(pair: RunPair) -> None:
    """As 320 draws have it once in a while: 4 % more than was recorded."""
    _times(pair.aqn, 1.04)


@caught(EVENTS, Link.DRAWN, "invalid", "RLX677", twin="noise-a-little-larger-than-asked")
def noise_that_is_no_number(pair: RunPair) -> None:
    _times(pair.aqn, math.nan)


@caught(EVENTS, Link.DRAWN, "invalid", "RLX677", twin="noise-that-left-a-few-weights-as-they-were")
def noise_that_changed_half_of_the_weights(pair: RunPair) -> None:
    """As large as asked in the root mean square, on half of the weights."""
    for event in _noisy(pair.aqn):
        event["changed"] = 160


@honest(EVENTS, Link.DRAWN)
def noise_that_left_a_few_weights_as_they_were(pair: RunPair) -> None:
    """As in float32 the smallest draws round away on large weights."""
    for event in pair.aqn.lines("noise", "rollout", *range(17, 21)):
        event["changed"] = 314


@caught(EVENTS, Link.DRAWN, "unverified", "RLX671", twin="noise-that-left-a-few-weights-as-they-were")
def noise_that_nobody_counted(pair: RunPair) -> None:
    for event in _noisy(pair.aqn):
        del event["changed"]


@unseen(
    EVENTS,
    Link.DRAWN,
    "a fingerprint is that of numbers which only the payload draws: the judge knows whether two are alike, not which "
    "the seed gives",
)
def fingerprints_of_another_seed(pair: RunPair) -> None:
    for event in _noisy(pair.aqn):
        event["fingerprint"] = event["fingerprint"][::-1]


@caught(EVENTS, Link.DRAWN, "invalid", "RLX603", twin="sigma-with-six-digits")
def sigma_of_the_stage_before(pair: RunPair) -> None:
    (eight,) = pair.aqn.lines("noise", "rollout", 8)
    for event in pair.aqn.lines("noise", "rollout", 9):
        event.update(sigma=eight["sigma"], asked_std=eight["sigma"], effective_std=eight["effective_std"])


@honest(EVENTS, Link.DRAWN)
def sigma_with_six_digits(pair: RunPair) -> None:
    for event in _noisy(pair.aqn):
        event.update(sigma=float(f"{event['sigma']:.6g}"), asked_std=float(f"{event['asked_std']:.6g}"))


# felt


@caught(EVENTS, Link.FELT, "unverified", "RLX680", twin="probe-that-feels-little")
def probe_that_feels_nothing(pair: RunPair) -> None:
    for line in pair.aqn.lines("probe"):
        line["delta"] = 0.0


@honest(EVENTS, Link.FELT)
def probe_that_feels_little(pair: RunPair) -> None:
    """As a large model may: how large the difference is decides nothing."""
    for line in pair.aqn.lines("probe"):
        line["delta"] /= 1000


@caught(EVENTS, Link.FELT, "unverified", "RLX680", twin="probe-that-misses-one-look")
def probe_that_feels_nothing_at_one_step(pair: RunPair) -> None:
    for line in pair.aqn.lines("probe", "rollout", 14):
        line["delta"] = 0.0


@honest(EVENTS, Link.FELT)
def probe_that_misses_one_look(pair: RunPair) -> None:
    for line in pair.aqn.lines("probe", "rollout", 14):
        line.update(delta=None, floor=None, tokens=0, seconds=5.0, missing="no answer within 5 s")


@caught(EVENTS, Link.FELT, "unverified", "RLX681", twin="probe-on-a-device-that-does-not-repeat-itself")
def probe_that_feels_noise_at_a_clean_step(pair: RunPair) -> None:
    for line in pair.aqn.lines("probe", "rollout", 3):
        line["delta"] = 0.004


@caught(EVENTS, Link.FELT, "unverified", "RLX690", twin="probe-that-finds-the-cache-empty")
def probe_that_finds_prompts_in_the_cache(pair: RunPair) -> None:
    for line in pair.aqn.lines("probe"):
        line["cached"] = 32


@honest(EVENTS, Link.FELT)
def probe_that_finds_the_cache_empty(pair: RunPair) -> None:
    for line in pair.aqn.lines("probe"):
        line["cached"] = 0


@honest(EVENTS, Link.FELT)
def probe_on_a_device_that_does_not_repeat_itself(pair: RunPair) -> None:
    for number, line in enumerate(pair.aqn.lines("probe")):
        line["floor"] = 2e-7 * (1 + number % 3)
        line["delta"] = max(line["delta"], 3e-7)


@caught(EVENTS, Link.FELT, "invalid", "RLX604", twin="several-syncs-a-step")
def noise_taken_off_before_the_rollout(pair: RunPair) -> None:
    """A second sync for step 13 brings clean weights, and adds nothing."""
    events, (sync,) = pair.aqn.events, pair.aqn.lines("noise", "rollout", 13)
    none = {"sigma": 0.0, "layers": 0, "elements": 0, "changed": 0, "effective_std": 0.0, "asked_std": 0.0}
    clean = {"digest_before": sync["digest_after"], "digest_after": sync["digest_clean"], "fingerprint": ""}
    at = events.index(pair.aqn.lines("probe", "rollout", 13)[0]) + 1
    events.insert(at, {**sync, **none, **clean, "restored": 5})
    pair.aqn.lines("noise", "rollout", 14)[0]["digest_before"] = sync["digest_clean"]
    number_again(pair.aqn)


@caught(EVENTS, Link.FELT, "unverified", "RLX683", twin="probe-that-misses-one-look")
def probe_that_scored_no_token(pair: RunPair) -> None:
    for line in pair.aqn.lines("probe"):
        line["tokens"] = 0


@caught(EVENTS, Link.FELT, "unverified", "RLX683", twin="probe-that-misses-one-look")
def probe_whose_scores_are_no_numbers(pair: RunPair) -> None:
    for line in pair.aqn.lines("probe", "rollout"):
        line["delta"] = math.nan


# lifted


@caught(EVENTS, Link.LIFTED, "invalid", "RLX606", twin="validation-whose-look-failed")
def validation_recorded_with_noise(pair: RunPair) -> None:
    taken = ("sigma", "layers", "elements", "changed", "effective_std", "asked_std", "dtypes", "fingerprint")
    noisy = pair.aqn.lines("noise", "rollout", 11)[0]
    (validation,) = pair.aqn.lines("noise", "validation", 10)
    validation.update({key: noisy[key] for key in taken})


@caught(EVENTS, Link.LIFTED, "invalid", "RLX687", twin="validation-synced-anew")
def validation_on_the_weights_of_the_rollout(pair: RunPair) -> None:
    """Its record says clean, and the digest of its weights is that of the noisy ones."""
    noisy = pair.aqn.lines("noise", "rollout", 11)[0]
    (validation,) = pair.aqn.lines("noise", "validation", 10)
    validation.update(restored=0, digest_clean=noisy["digest_after"], digest_after=noisy["digest_after"])


@caught(EVENTS, Link.LIFTED, "unverified", "RLX688", twin="validation-whose-look-failed")
def validation_that_the_probe_calls_noisy(pair: RunPair) -> None:
    """And whose record says clean."""
    for line in pair.aqn.lines("probe", "validation", 10):
        line.update(sigma=0.0108, delta=0.01)


@honest(EVENTS, Link.LIFTED)
def validation_whose_look_failed(pair: RunPair) -> None:
    """Its digest still shows clean weights."""
    for line in pair.aqn.lines("probe", "validation", 10):
        line.update(delta=None, floor=None, tokens=0, missing="no answer within 5 s")


@honest(EVENTS, Link.LIFTED)
def validation_synced_anew(pair: RunPair) -> None:
    """Clean weights are sent before it, where others put the kept ones back."""
    for line in pair.aqn.lines("noise", "validation", 10):
        line.update(synced=True, restored=0)


@caught(EVENTS, Link.LIFTED, "unverified", "RLX606", "RLX675", twin="last-record-lost")
def records_of_a_validation_lost(pair: RunPair) -> None:
    pair.aqn.events = [line for line in pair.aqn.events if (line.get("phase"), line.get("step")) != ("validation", 15)]


# trained on


@unseen(
    EVENTS,
    Link.TRAINED_ON,
    "adapters, and norms in bfloat16 with a small learning rate, stay as they were in honest runs, too: that the "
    "layers which take noise never change does not say that nothing was trained",
)
def clean_weights_that_never_change(pair: RunPair) -> None:
    first = pair.aqn.lines("noise")[0]["digest_clean"]
    left = ""
    for line in pair.aqn.lines("noise"):
        noisy = line["sigma"] > 0
        line.update(digest_before=left, digest_clean=first, digest_after=line["digest_after"] if noisy else first)
        left = line["digest_after"]


@unseen(
    EVENTS,
    Link.TRAINED_ON,
    "a step may leave the weights as they were: no gradient, an update that was skipped, a learning rate that rounding "
    "takes. Of several processes RLX685 holds their clean weights against each other",
)
def sync_that_brought_old_weights(pair: RunPair) -> None:
    before, sync = (pair.aqn.lines("noise", "rollout", step)[0] for step in (13, 14))
    sync["digest_clean"] = before["digest_clean"]


# for all of them


@caught(EVENTS, Link.ASKED, "invalid", "RLX670", twin="resumed-from-a-checkpoint")
def resumed_with_another_seed(pair: RunPair) -> None:
    second = _resume(pair.aqn)
    second.told()[0]["seed"] = 7
    second.write()


@honest(EVENTS, Link.DRAWN)
def resumed_from_a_checkpoint(pair: RunPair) -> None:
    """The first attempt ended after step 14; the second went on from the checkpoint of step 10."""
    _resume(pair.aqn).write()


@honest(EVENTS, Link.DRAWN)
def clock_that_jumps_back(pair: RunPair) -> None:
    for line in pair.aqn.events[20:]:
        line["time"] -= 3600.0


def _resume(run: RunDirectory, last: int = 14, after: int = 10) -> Recorded:
    """End the attempt after a step, and give back a second one that goes on from an earlier checkpoint."""
    folder = run.run_dir / "attempts/2"
    shutil.copytree(run.folder, folder)
    second = Recorded(folder)
    first = next(index for index, line in enumerate(second.events) if line.get("step") == after + 1)
    second.events = [second.events[0], *second.events[first:]]
    second.events[1]["digest_before"] = ""
    for number, line in enumerate(second.events):
        line["seq"] = number
    second.metrics = [line for line in second.metrics if line["step"] > after]
    rest = second.log[second.log.index("\n", second.log.index(f" step:{after} - ")) + 1 :]
    second.log = f"Setting global step to {after}\n{rest}"
    run.end_after(last)
    (run.folder / "validation/15.jsonl").unlink()
    (run.folder / "validation/20.jsonl").unlink()
    (run.run_dir / "latest").unlink()
    (run.run_dir / "latest").symlink_to("attempts/2")
    return second


def number_again(run: RunDirectory) -> None:
    """Number the lines of the one process as if they had been written so."""
    for number, line in enumerate(run.events):
        line["seq"] = number


def _by_another_writer(events: list[Line]) -> list[Line]:
    """The same lines by another operating-system process, numbered from 0, in a file of its own."""
    own = copy.deepcopy(events)
    for number, line in enumerate(own):
        line.update(seq=number, process={**line["process"], "pid": 32746})
    return own


def _times(run: RunDirectory, factor: float) -> None:
    for event in _noisy(run):
        event["effective_std"] *= factor


def _noisy(run: RunDirectory) -> list[Line]:
    return [line for line in run.lines("noise") if line["sigma"] > 0]
