"""Edits of the recorded arm without noise that is watched for it: noise that gets there, and looks that are not taken.

Edits of the noisy arm (probed_edits.py) serve here too, where they change looks alone.
"""

from __future__ import annotations

from inspect import isfunction

from tests.evidence.edits import Recorded
from tests.evidence.probed_edits import _lines, _second_process, _stand

_OTHER = "0123456789abcdef"


def probe_feels_noise_at_seven(run: Recorded) -> None:
    """Less than any noise of the other arm."""
    _lines(run, "probe", "rollout", 7)[0]["delta"] = 1e-9


def probe_feels_noise_beyond_the_floor(run: Recorded) -> None:
    for line in _lines(run, "probe"):
        line.update(floor=1.3e-5, delta=0.01 if line["step"] == 7 else 1e-5)


def validation_on_other_weights(run: Recorded) -> None:
    """The sync for step 11 brought others, and what it left is put back afterwards."""
    (validation,) = _lines(run, "noise", "validation", 10)
    validation.update(digest_before="", digest_clean=_OTHER, digest_after=_OTHER)
    back = _lines(run, "noise", "rollout", 11)[-1]
    back["digest_before"] = _OTHER


def counted_as_changed(run: Recorded) -> None:
    _lines(run, "noise", "rollout", 12)[0]["changed"] = 3


def payload_of_the_aqn_arm(run: Recorded) -> None:
    """Its settings are in force: noise, and the settings say so."""
    (told,) = run.told()
    told.update(sigma_start=0.05, sigma_end=0.0005, schedule="geometric", digest=_OTHER)
    for line in _lines(run, "noise", "rollout", *range(5, 21)):
        line.update(sigma=0.05, layers=5, elements=320, changed=320, effective_std=0.05, asked_std=0.05)
        line.update(dtypes=["float32"], fingerprint=f"{line['step']:016d}", digest_after=f"{line['step']:016d}")
    for line in _lines(run, "probe", "rollout", *range(5, 21)):
        line.update(sigma=0.05, delta=0.02)
    _stand(run.events)


def settings_of_the_aqn_arm_and_no_noise(run: Recorded) -> None:
    run.told()[0].update(sigma_start=0.05, sigma_end=0.0005, schedule="geometric", digest=_OTHER)


def watch_never_begun(run: Recorded) -> None:
    run.events = []


def watch_not_promised(run: Recorded) -> None:
    """As a plan of before has it, and its run."""
    run.events = []
    del run.expectations["watch"]


def watch_ends_after_eleven(run: Recorded) -> None:
    """Nothing says that lines are lost: the process ended, or wrote no more."""
    run.events = run.events[: next(number for number, line in enumerate(run.events) if line.get("step") == 12)]


def watch_of_a_killed_process(run: Recorded) -> None:
    """It wrote each look, and no last line."""
    run.events = [line for line in run.events if line["kind"] != "end"]


def watch_of_a_trainer_that_skips_syncs(run: Recorded) -> None:
    """As verl does while it warms up a critic: the weights stand, and so does what is known of them."""
    run.events = [line for line in run.events if line.get("step") not in (2, 3)]
    for number, line in enumerate(run.events):
        line["seq"] = number
    _stand(run.events)


def watch_line_lost(run: Recorded) -> None:
    run.events.remove(_lines(run, "probe", "rollout", 9)[0])


def watch_line_twice(run: Recorded) -> None:
    run.events.insert(5, dict(run.events[4]))


def watch_of_one_replica_in_two(run: Recorded) -> None:
    run.promise["processes"].append({**run.promise["processes"][0], "replica": 1})


def watched_replica_that_no_sync_reached(run: Recorded) -> None:
    own = _second_process(run, replica=1)
    of_step = {line["step"]: line["digest_clean"] for line in own if line["kind"] == "noise" and line["synced"]}
    for line in own:
        if line["kind"] == "noise" and of_step.get(line["step"]) == line["digest_clean"] and line["step"] == 18:
            line.update(digest_clean=of_step[17], digest_after=of_step[17])
    _stand(own)


def watch_without_settings(run: Recorded) -> None:
    run.events = [line for line in run.events if line["kind"] != "settings"]
    for number, line in enumerate(run.events):
        line["seq"] = number


def watch_of_four_layers_in_five(run: Recorded) -> None:
    run.told()[0].update(layers=run.told()[0]["layers"][:4], elements=256)


def watch_of_four_layers_in_five_from_memory(run: Recorded) -> None:
    watch_of_four_layers_in_five(run)
    run.promise["confirmed"] = False


def watch_of_names_below_a_language_model(run: Recorded) -> None:
    run.told()[0]["layers"] = [f"language_model.{name}" for name in run.told()[0]["layers"]]


EDITS = {
    name: edit
    for name, edit in globals().items()
    if isfunction(edit) and edit.__module__ == __name__ and name[0] != "_"
}
