"""Edits of the recorded run with digests and a probe: what a fault would leave there, and what honest runs leave."""

from __future__ import annotations

import copy
from inspect import isfunction
from typing import Any

from tests.evidence.edits import Recorded, gap_not_logged

Line = dict[str, Any]
POST = "val-core/post/acc/mean@1"


def _lines(run: Recorded, kind: str, phase: str = "", *steps: int) -> list[Line]:
    return [
        line
        for line in run.events
        if line["kind"] == kind and phase in ("", line["phase"]) and (not steps or line["step"] in steps)
    ]


def _looks_at_replica_1(run: Recorded, *steps: int) -> list[Line]:
    return [line for line in _lines(run, "probe", "rollout", *steps) if line["process"]["replica"] == 1]


def _second_process(run: Recorded, **place: int) -> list[Line]:
    """The records of one more process, as promised. A replica has noise of its own; probes are taken once."""
    own = [copy.deepcopy(line) for line in run.events if line["kind"] != "probe"]
    for number, line in enumerate(own):
        line.update(seq=number, process={**line["process"], **place})
        if "replica" in place:
            line["replica"] = place["replica"]
            line |= {key: line[key][::-1] for key in ("fingerprint",) if key in line}
            line |= {"digest_after": line["digest_after"][::-1]} if line.get("changed") else {}
    _stand(own)
    run.events += own
    run.promise["processes"].append(own[0]["process"])
    if "rank" in place:
        for told in run.told():
            told["tp_size"] = 2
    return own


def probe_sees_noise_where_none_is(run: Recorded) -> None:
    for line in _lines(run, "probe", "rollout", 3):
        line["delta"] = 0.01


def probe_sees_none_of_the_noise(run: Recorded) -> None:
    for line in _lines(run, "probe"):
        line["delta"] = 0.0


def probe_sees_no_noise_at_nine(run: Recorded) -> None:
    for line in _lines(run, "probe", "rollout", 9):
        line["delta"] = 0.0


def probe_one_step_late(run: Recorded) -> None:
    """The engine serves with the noise of the step before; the records say that it is on time."""
    looks = _lines(run, "probe", "rollout")
    by_step = {line["step"]: line["delta"] for line in looks}
    for line in looks:
        line["delta"] = by_step.get(line["step"] - 1, 0.0)


def probe_sees_noise_in_validation(run: Recorded) -> None:
    for line in _lines(run, "probe", "validation", 10, 15):
        line["delta"] = 0.01


def other_noise_after_a_validation(run: Recorded) -> None:
    _lines(run, "probe", "rollout", 11)[-1]["delta"] += 1e-4


def little_else_after_a_validation_for_a_device_that_wavers(run: Recorded) -> None:
    """The same difference, of which that look's own floor says that it is none; the look before had none by chance."""
    other_noise_after_a_validation(run)
    _lines(run, "probe", "rollout", 11)[-1]["floor"] = 1.3e-5


def validation_not_restored(run: Recorded) -> None:
    """Noise stands in the validation of step 10, whose record says clean; the probe is answered by another model."""
    before = _lines(run, "noise", "rollout", 11)[0]
    (validation,) = _lines(run, "noise", "validation", 10)
    validation.update(restored=0, digest_clean=before["digest_after"], digest_after=before["digest_after"])


def noise_gone_before_the_next_sync(run: Recorded) -> None:
    seven, eight = _lines(run, "noise", "rollout", 7, 8)
    eight.update(digest_before=seven["digest_clean"], restored=0)


def noise_on_noise(run: Recorded) -> None:
    _lines(run, "noise", "rollout", 8)[0]["digest_before"] = "0123456789abcdef"


def rank_that_no_sync_reached(run: Recorded) -> None:
    _stay_at(_second_process(run, rank=1), 13)


def replica_that_no_sync_reached(run: Recorded) -> None:
    _stay_at(_second_process(run, replica=1), 18)


def counted_and_not_changed(run: Recorded) -> None:
    for line in _lines(run, "noise", "rollout", 12):
        line["digest_after"] = line["digest_clean"]
    _stand(run.events)


def changed_and_not_counted(run: Recorded) -> None:
    for line in _lines(run, "noise", "rollout", 3):
        line["digest_after"] = "0123456789abcdef"
    _stand(run.events)


def declared_noise_not_in_validation(run: Recorded) -> None:
    run.expectations["noise"]["in_validation"] = True


def neither_digests_nor_probe(run: Recorded) -> None:
    run.events = [line for line in run.events if line["kind"] != "probe"]
    for number, line in enumerate(run.events):
        line["seq"] = number
    for line in _lines(run, "noise"):
        line.update(digest_before="", digest_clean="", digest_after="")


def noise_in_validation_as_declared(run: Recorded) -> None:
    run.expectations["noise"]["in_validation"] = True
    noise = {line["step"]: line for line in reversed(_lines(run, "noise", "rollout")) if line["sigma"] > 0}
    for line in _lines(run, "noise", "validation", *noise):
        taken = ("sigma", "layers", "skipped", "elements", "changed", "effective_std", "asked_std", "dtypes")
        line.update({key: noise[line["step"]][key] for key in taken}, digest_after=f"{line['step']:016d}")
        back = next(other for other in _lines(run, "noise", "rollout", line["step"] + 1) if not other["synced"])
        back["digest_before"] = line["digest_after"]
    for line in _lines(run, "probe", "validation", *noise):
        line.update(sigma=noise[line["step"]]["sigma"], delta=0.01)


def late_look(run: Recorded) -> None:
    for line in _lines(run, "probe", "rollout", 14):
        line.update(delta=None, tokens=0, seconds=5.0, missing="no answer within 5 s")


def prompts_left_in_the_cache(run: Recorded) -> None:
    for line in _lines(run, "probe"):
        line["cached"] = 0 if line["step"] < 3 else 32


def nothing_left_in_the_cache(run: Recorded) -> None:
    for line in _lines(run, "probe"):
        line["cached"] = 0


def probe_given_up(run: Recorded) -> None:
    for line in _lines(run, "probe"):
        line.update(delta=None, floor=None, tokens=0, missing="RuntimeError: this engine scores no prompts")


def promised_probe_given_up(run: Recorded) -> None:
    run.promise["probed"] = True
    probe_given_up(run)


def promised_probe_with_one_late_look(run: Recorded) -> None:
    run.promise["probed"] = True
    late_look(run)


def probe_of_one_replica_silent(run: Recorded) -> None:
    run.events = [line for line in run.events if line["kind"] != "probe" or line["process"]["replica"] == 0]
    for replica in (0, 1):
        own = [line for line in run.events if line.get("process", {}).get("replica") == replica]
        for number, line in enumerate(own):
            line["seq"] = number


def late_looks_at_one_replica(run: Recorded) -> None:
    for line in _looks_at_replica_1(run, 5, 6):
        line.update(delta=None, tokens=0, seconds=5.0, missing="no answer within 5 s")


def noise_in_a_copy_that_does_not_serve_in_one_replica(run: Recorded) -> None:
    for line in _looks_at_replica_1(run):
        line["delta"] = 0.0


def probe_sees_noise_where_none_is_in_one_replica(run: Recorded) -> None:
    for line in _looks_at_replica_1(run, 2):
        line["delta"] = 0.01


def other_weights_from_a_validation_on_in_one_replica(run: Recorded) -> None:
    for line in _lines(run, "probe", "validation", 3):
        line["delta"] += 0.01 * line["process"]["replica"]
    _looks_at_replica_1(run, 4)[-1]["delta"] += 0.01


def gap_not_logged_beside_a_probe(run: Recorded) -> None:
    gap_not_logged(run)


def gap_not_logged_and_probe_given_up(run: Recorded) -> None:
    gap_not_logged(run)
    probe_given_up(run)


def floor_of_a_device(run: Recorded) -> None:
    """Two looks at the same weights differ, and others at other times by up to some times that."""
    for number, line in enumerate(_lines(run, "probe")):
        line["delta"] = (line["delta"] ** 2 + (1e-5 * (1 + number % 5)) ** 2) ** 0.5
        line["floor"] = 1.3e-5


def one_element_that_moves_no_score(run: Recorded) -> None:
    """In bfloat16: of the noise of 0.0005 one element is left, and rounding above it leaves nothing."""
    for line in _lines(run, "noise", "rollout", 18):
        line.update(changed=1, effective_std=0.0039 / line["elements"] ** 0.5, digest_after="0123456789abcdef")
    _stand(run.events)


def evaluated_after_the_training_only(run: Recorded) -> None:
    """No validation, and `eval.post`: it answers from the checkpoint of step 20, whose rollout had noise."""
    first: dict[tuple[str, int], Line] = {}
    for line in run.events:
        if line.get("phase") != "validation":
            first.setdefault((line["kind"], line.get("step", 0)), line)
    run.events = list(first.values())
    for number, line in enumerate(run.events):
        line["seq"] = number
    _stand(run.events)
    for step in range(21):
        run.forget(step, lambda key: key.startswith("val-"))
    run.put(POST, {20: 0.9})
    run.expectations.update(validation_steps=[], last_step_validated=False, metric=POST)


def engine_that_sleeps(run: Recorded) -> None:
    for line in _lines(run, "noise"):
        if line["synced"]:
            line["digest_before"] = ""


def sync_inside_a_validation(run: Recorded) -> None:
    for line in _lines(run, "noise", "validation", 10):
        line["synced"] = True


def rank_like_the_other(run: Recorded) -> None:
    _second_process(run, rank=1)


def second_replica(run: Recorded) -> None:
    _second_process(run, replica=1)


def _stay_at(lines: list[Line], step: int) -> None:
    """The sync for the rollout of `step` brings nothing to this process, which disturbs the weights of before."""
    before = next(line for line in lines if line["kind"] == "noise" and line["step"] == step - 1)
    for line in lines:
        if line["kind"] == "noise" and line["step"] == step:
            line.update(digest_clean=before["digest_clean"], digest_after="0123456789abcdef")
    _stand(lines)


def _stand(lines: list[Line]) -> None:
    """Each line finds what the one before it left."""
    left = ""
    for line in lines:
        if line["kind"] == "noise":
            line["digest_before"], left = left, line["digest_after"]


EDITS = {
    name: edit
    for name, edit in globals().items()
    if isfunction(edit) and edit.__module__ == __name__ and name[0] != "_"
}
