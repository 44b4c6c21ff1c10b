"""Edits that give a recorded run the record of this rlx, and then break one link of the chain of evidence in it.

Each edit that must be seen through has a near twin among the first ones that is honest.
"""

from __future__ import annotations

import hashlib
import math

from rlx.model.rounding import survival
from tests.evidence.edits import Recorded


def chain_of_evidence(run: Recorded) -> None:
    """A recorded run as this rlx plans and records it: on one process, which writes all that links need."""
    _chain(run, {"replica": 0})


def two_replicas(run: Recorded) -> None:
    _chain(run, {"replica": 0}, {"replica": 1})


def two_shards(run: Recorded) -> None:
    _chain(run, {"shard": 0}, {"shard": 1})


def two_ranks(run: Recorded) -> None:
    _chain(run, {"rank": 0}, {"rank": 1})


def other_node_than_expected(run: Recorded) -> None:
    """Ray deals out nodes as it likes."""
    two_replicas(run)
    for event in run.events:
        event["process"]["node"] = 1 - event["process"]["replica"]


def clock_jumps(run: Recorded) -> None:
    chain_of_evidence(run)
    for event in run.events[12:]:
        event["time"] -= 3600.0


def names_below_a_language_model(run: Recorded) -> None:
    chain_of_evidence(run)
    for told in run.told():
        told["layers"] = [f"language_model.{name}" for name in told["layers"]]


def in_bfloat16(run: Recorded) -> None:
    """As weights around 1 lose what their 8 bits do not resolve (rlx.model.rounding)."""
    chain_of_evidence(run)
    for event in run.noisy():
        left = survival(event["sigma"], "bfloat16", {1.0: 1})
        event.update(dtypes=["bfloat16"], changed=round(320 * left.changed), effective_std=left.std)


def lines_twice(run: Recorded) -> None:
    chain_of_evidence(run)
    run.events[5:5] = [dict(event) for event in run.events[2:5]]


def other_seed_in_force(run: Recorded) -> None:
    chain_of_evidence(run)
    run.told()[0]["seed"] = 7


def other_settings_in_one_replica(run: Recorded) -> None:
    two_replicas(run)
    run.told()[1].update(targets=["post_attention_layernorm"], digest="0123456789abcdef")


def other_file_of_settings(run: Recorded) -> None:
    chain_of_evidence(run)
    run.told()[0]["digest"] = "0123456789abcdef"


def split_otherwise(run: Recorded) -> None:
    chain_of_evidence(run)
    run.told()[0]["tp_size"] = 2


def settings_never_told(run: Recorded) -> None:
    two_replicas(run)
    run.events = [event for event in run.events if event["kind"] != "settings" or event["process"]["replica"] == 0]
    _number(run)


def second_replica_silent(run: Recorded) -> None:
    two_replicas(run)
    run.events = [event for event in run.events if event["process"]["replica"] == 0]


def second_shard_silent(run: Recorded) -> None:
    two_shards(run)
    run.events = [event for event in run.events if event["process"]["shard"] == 0]


def second_replica_clean(run: Recorded) -> None:
    two_replicas(run)
    for event in run.noisy(replica=1):
        event.update(sigma=0.0, layers=0, elements=0, changed=0, effective_std=0.0, fingerprint="")


def second_rank_misses_a_step(run: Recorded) -> None:
    two_ranks(run)
    run.events = [event for event in run.events if event.get("step") != 9 or event["process"]["rank"] == 0]
    _number(run)


def replica_that_was_not_planned(run: Recorded) -> None:
    two_replicas(run)
    run.promise["processes"] = run.promise["processes"][:1]


def one_norm_of_five(run: Recorded) -> None:
    """As a pattern reaches it that the plan does not have."""
    chain_of_evidence(run)
    for told in run.told():
        told.update(layers=["model.norm"], elements=64, reached={"layer_types": {"rmsnorm": 1}})
    for event in run.noisy():
        event.update(layers=1, skipped=4, elements=64, changed=64)


def as_many_other_layers(run: Recorded) -> None:
    chain_of_evidence(run)
    run.told()[0]["layers"] = [name.replace("input_", "pre_mlp_") for name in run.told()[0]["layers"]]


def other_layers_in_one_replica(run: Recorded) -> None:
    two_replicas(run)
    unknown_architecture(run, chain=False)
    run.told()[1]["layers"] = run.told()[1]["layers"][:4]


def fewer_weights(run: Recorded) -> None:
    chain_of_evidence(run)
    for event in run.noisy():
        event.update(elements=256, changed=256)


def fewer_weights_than_from_memory(run: Recorded) -> None:
    fewer_weights(run)
    run.promise["confirmed"] = False


def unknown_architecture(run: Recorded, *, chain: bool = True) -> None:
    if chain:
        chain_of_evidence(run)
    run.promise.update(layers=[], elements=None)


def unknown_architecture_and_one_layer_less(run: Recorded) -> None:
    """Against what the process itself said that its settings reach."""
    unknown_architecture(run)
    for event in run.noisy():
        event.update(layers=4, elements=256, changed=256)


def lines_lost(run: Recorded) -> None:
    chain_of_evidence(run)
    run.events = [event for event in run.events if event.get("step") != 3]


def lines_of_a_noisy_step_lost(run: Recorded) -> None:
    chain_of_evidence(run)
    run.events = [event for event in run.events if event.get("step") != 12]


def same_noise_at_every_step(run: Recorded) -> None:
    chain_of_evidence(run)
    for event in run.noisy():
        event["fingerprint"] = "0123456789abcdef"


def same_noise_in_both_replicas(run: Recorded) -> None:
    two_replicas(run)
    for event in run.noisy():
        event["fingerprint"] = _fingerprint({"replica": 0}, event["step"])


def other_noise_in_one_rank(run: Recorded) -> None:
    two_ranks(run)
    for event in run.noisy(rank=1):
        event["fingerprint"] = _fingerprint({"replica": 9}, event["step"])


def other_noise_at_the_second_sync(run: Recorded) -> None:
    chain_of_evidence(run)
    again = [event for event in run.noisy() if event["step"] == 11][1]
    again["fingerprint"] = _fingerprint({"replica": 9}, 11)


def noise_never_named(run: Recorded) -> None:
    chain_of_evidence(run)
    for event in run.noisy():
        del event["fingerprint"]


def ten_times_the_noise(run: Recorded) -> None:
    _times(run, 10.0)


def twice_the_variance(run: Recorded) -> None:
    _times(run, math.sqrt(2))


def factor_in_the_payload_only(run: Recorded) -> None:
    _times(run, 0.1)
    for event in run.noisy():
        event["asked_std"] = event["sigma"] / 10


def noise_of_no_size(run: Recorded) -> None:
    _times(run, math.nan)


def noise_of_no_size_at_one_step(run: Recorded) -> None:
    chain_of_evidence(run)
    run.noisy()[4]["effective_std"] = math.inf


def twice_the_variance_in_bfloat16(run: Recorded) -> None:
    in_bfloat16(run)
    for event in run.noisy():
        event["effective_std"] *= math.sqrt(2)


def factors_as_planned(run: Recorded) -> None:
    """Twice sigma on the last norm: (4 · 1 + 4) / 5 of the variance."""
    chain_of_evidence(run)
    factor = math.sqrt(8 / 5)
    run.promise.update(factor=factor)
    run.promise["settings"]["multipliers"] = {"model.norm": 2.0}
    for told in run.told():
        told["multipliers"] = {"model.norm": 2.0}
    for event in run.noisy():
        event.update(asked_std=event["sigma"] * factor, effective_std=event["effective_std"] * factor)


def twice_the_variance_with_factors(run: Recorded) -> None:
    factors_as_planned(run)
    for event in run.noisy():
        event["effective_std"] *= math.sqrt(2)


def _times(run: Recorded, factor: float) -> None:
    chain_of_evidence(run)
    for event in run.noisy():
        event["effective_std"] *= factor


_BLOCK = ("input_layernorm", "post_attention_layernorm")
_LAYERS = [*(f"model.layers.{index}.{name}" for index in (0, 1) for name in _BLOCK), "model.norm"]
_SETTINGS = {
    "sigma_start": 0.05, "sigma_end": 0.0005, "stages": 5, "total_steps": 20, "schedule": "geometric",
    "epoch_steps": None, "layer_types": ["rmsnorm"], "targets": "auto", "exclude": [], "multipliers": {}, "seed": 1,
    "validation_noise": False,
}  # fmt: skip
_DIGEST = "5d41402abc4b2a76"


def _chain(run: Recorded, *places: dict[str, int]) -> None:
    processes = [{"replica": 0, "shard": 0, "rank": 0, "node": 0} | place for place in places]
    told = {"kind": "settings", **_SETTINGS, "digest": _DIGEST, "layers": _LAYERS, "elements": 320}
    told |= {"reached": {"layer_types": {"rmsnorm": 5}}, "tp_size": 1 + max(each["rank"] for each in processes)}
    run.expectations["noise"]["promise"] = {
        "links": ["asked", "reached", "drawn", "trained on"],
        "settings": dict(_SETTINGS),
        "digest": _DIGEST,
        "processes": processes,
        "layers": _LAYERS,
        "elements": 320,
        "factor": 1.0,
        "confirmed": True,
    }
    recorded = run.events
    run.events = []
    for process in processes:
        own = [{**told, "time": recorded[0]["time"]}, *recorded]
        run.events += [{**event, "process": dict(process)} for event in own]
    for event in run.noisy():
        event.update(replica=event["process"]["replica"], dtypes=["float32"], asked_std=event["sigma"])
        event["fingerprint"] = _fingerprint(event["process"], event["step"])
    _number(run)


def _number(run: Recorded) -> None:
    """Give the lines of each process their numbers, and its last line."""
    run.events = [event for event in run.events if event["kind"] != "end"]
    for process in run.processes():
        own = [event for event in run.events if event["process"] == process]
        for number, event in enumerate(own):
            event["seq"] = number
        run.events.append({"kind": "end", "seq": len(own), "count": len(own) + 1, "process": process, "time": 2e9})


def _fingerprint(process: dict[str, int], step: int) -> str:
    return hashlib.sha256(f"{process['replica']} {step}".encode()).hexdigest()[:16]


CHAIN_EDITS = {
    name: edit
    for name, edit in globals().items()
    if callable(edit) and edit.__module__ == __name__ and not name.startswith("_")
}
