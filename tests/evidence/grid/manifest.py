"""Edits of the manifest: what the plan promised, its recipe, and what the run found when it was launched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from rlx.model import Link
from tests.evidence.edits import REJECTED, REJECTED_TOKENS, REJECTION
from tests.evidence.grid.cases import FIRST_EDITION, Source, caught, honest, unseen
from tests.evidence.grid.run_pair import RunDirectory, RunPair

MANIFEST = Source.MANIFEST
_THINKING = "data.apply_chat_template_kwargs.enable_thinking"


# asked


@caught(MANIFEST, Link.ASKED, "invalid", "RLX670", twin="promise-in-another-order")
def promise_of_another_seed(pair: RunPair) -> None:
    pair.aqn.promise["settings"]["seed"] = 2


@caught(MANIFEST, Link.ASKED, "invalid", "RLX670", twin="promise-in-another-order")
def promise_of_another_file(pair: RunPair) -> None:
    pair.aqn.promise["digest"] = "0123456789abcdef"


@honest(MANIFEST, Link.ASKED)
def promise_in_another_order(pair: RunPair) -> None:
    """And with whole numbers written with a point."""
    settings = pair.aqn.promise["settings"]
    settings.update(stages=5.0, total_steps=20.0)
    pair.aqn.promise["settings"] = dict(reversed(settings.items()))


@caught(MANIFEST, Link.ASKED, "unverified", twin="promise-in-another-order")
def promise_that_this_rlx_cannot_read(pair: RunPair) -> None:
    """As a later one may make it: what is not understood is not held."""
    pair.aqn.promise["settings_signed_by"] = "0123456789abcdef"


@honest(MANIFEST, Link.ASKED)
def promise_that_names_fewer_settings(pair: RunPair) -> None:
    """As plans were written before a setting existed."""
    del pair.aqn.promise["settings"]["epoch_steps"]


# reached


@caught(MANIFEST, Link.REACHED, "unverified", "RLX672", twin="process-on-another-node")
def promise_of_two_replicas(pair: RunPair) -> None:
    processes = pair.aqn.promise["processes"]
    processes.append({**processes[0], "replica": 1})


@honest(MANIFEST, Link.REACHED)
def process_on_another_node(pair: RunPair) -> None:
    """Ray deals out nodes as it likes."""
    pair.aqn.promise["processes"][0]["node"] = 1


@caught(MANIFEST, Link.REACHED, "invalid", "RLX674", twin="promise-of-layers-in-another-order")
def promise_of_six_layers(pair: RunPair) -> None:
    pair.aqn.promise["layers"].append("model.layers.2.input_layernorm")
    pair.aqn.promise["elements"] += 64


@caught(MANIFEST, Link.REACHED, "invalid", "RLX674", twin="promise-of-layers-in-another-order")
def promise_of_wider_layers(pair: RunPair) -> None:
    pair.aqn.promise["elements"] = 640


@honest(MANIFEST, Link.REACHED)
def promise_of_layers_in_another_order(pair: RunPair) -> None:
    pair.aqn.promise["layers"].reverse()


# drawn


@caught(MANIFEST, Link.DRAWN, "invalid", "RLX603", twin="plan-with-six-digits")
def plan_of_another_sigma(pair: RunPair) -> None:
    sigmas = pair.aqn.noise["sigmas"]
    pair.aqn.noise["sigmas"] = [1.1 * sigma if index in range(8, 12) else sigma for index, sigma in enumerate(sigmas)]


@caught(MANIFEST, Link.DRAWN, "invalid", "RLX603", twin="plan-with-six-digits")
def plan_a_step_later(pair: RunPair) -> None:
    sigmas = pair.aqn.noise["sigmas"]
    pair.aqn.noise["sigmas"] = [0.0, *sigmas[:-1]]


@honest(MANIFEST, Link.DRAWN)
def plan_with_six_digits(pair: RunPair) -> None:
    pair.aqn.noise["sigmas"] = [float(f"{sigma:.6g}") for sigma in pair.aqn.noise["sigmas"]]


@honest(MANIFEST, Link.DRAWN)
def plan_computed_on_another_machine(pair: RunPair) -> None:
    """Its sigmas differ in the last digits of a double."""
    pair.aqn.noise["sigmas"] = [sigma * (1 + 1e-15) for sigma in pair.aqn.noise["sigmas"]]


# felt


@caught(MANIFEST, Link.FELT, "unverified", "RLX683", twin="promise-of-what-records-had-then", base=FIRST_EDITION)
def promise_of_a_probe_that_was_not_there(pair: RunPair) -> None:
    pair.aqn.noise["promise"] = {"links": ["felt"], "probed": True}


@honest(MANIFEST, Link.FELT, base=FIRST_EDITION)
def plan_of_the_first_edition(pair: RunPair) -> None:
    """Nothing is edited: it is judged by what it promised then."""


@caught(MANIFEST, Link.FELT, "unverified", "RLX609", twin="promise-of-no-gap")
def promise_of_another_witness(pair: RunPair) -> None:
    """The mean log ratio, which is 0 in a run without bypass."""
    pair.aqn.expectations["witness"] = "policy_kl"


@honest(MANIFEST, Link.FELT)
def promise_of_no_gap(pair: RunPair) -> None:
    """As of a back-end that does not log it; this one did."""
    pair.aqn.expectations["reports_probability_gap"] = False


@unseen(
    MANIFEST,
    Link.FELT,
    "what a plan never promised is named in the verdict; that it was promised once, a plan that was changed does not "
    "tell: records prove the honesty of machines, not of their owner",
)
def promise_taken_back(pair: RunPair) -> None:
    pair.aqn.promise.update(links=["asked", "reached", "drawn"], probed=False)


# lifted


@caught(MANIFEST, Link.LIFTED, "invalid", "RLX689", twin="promise-that-does-not-name-validations")
def promise_of_noise_in_validation(pair: RunPair) -> None:
    pair.aqn.noise["in_validation"] = True


@honest(MANIFEST, Link.LIFTED)
def promise_that_does_not_name_validations(pair: RunPair) -> None:
    """As of a back-end that cannot show their weights; this one did."""
    pair.aqn.promise["links"].remove("lifted")


@caught(MANIFEST, Link.LIFTED, "unverified", "RLX687", twin="promise-of-what-records-had-then", base=FIRST_EDITION)
def promise_of_digests_that_were_not_there(pair: RunPair) -> None:
    pair.aqn.noise["promise"] = {"links": ["felt", "lifted"]}


@honest(MANIFEST, Link.LIFTED, base=FIRST_EDITION)
def promise_of_what_records_had_then(pair: RunPair) -> None:
    pair.aqn.noise["promise"] = {"links": ["felt"]}


# trained on


@caught(MANIFEST, Link.TRAINED_ON, "unverified", "RLX652", twin="promise-of-weights-alone")
def promise_of_a_rejection_that_nobody_logged(pair: RunPair) -> None:
    pair.aqn.expectations["correction"] = dict(REJECTION)


@honest(MANIFEST, Link.TRAINED_ON)
def promise_of_weights_alone(pair: RunPair) -> None:
    pair.aqn.expectations["correction"] = {**REJECTION, "rejection": ""}


@caught(MANIFEST, Link.TRAINED_ON, "not comparable", "RLX932", twin="another-learning-rate-declared")
def another_learning_rate(pair: RunPair) -> None:
    """What was trained differs in more than the noise."""
    pair.aqn.plan["recipe"]["train"]["lr"] = 0.0004


@honest(MANIFEST, Link.TRAINED_ON)
def another_learning_rate_declared(pair: RunPair) -> None:
    pair.aqn.plan["recipe"]["train"]["lr"] = 0.0004
    pair.aqn.plan["treatment"].append("train.lr")


@caught(MANIFEST, Link.TRAINED_ON, "not comparable", "RLX902", twin="the-same-weights-elsewhere")
def other_weights_to_begin_with(pair: RunPair) -> None:
    _change_found(pair.aqn, sha256="0" * 64)


@honest(MANIFEST, Link.TRAINED_ON)
def the_same_weights_elsewhere(pair: RunPair) -> None:
    pair.aqn.plan["recipe"]["model"]["path"] = "/models/tiny-cpu"
    _change_found(pair.aqn, path="/models/tiny-cpu")


@caught(MANIFEST, Link.TRAINED_ON, "invalid", "RLX644", "RLX932", twin="configuration-in-another-order")
def configuration_with_another_learning_rate(pair: RunPair) -> None:
    """Both arms are launched with one learning rate, and one of them composed another."""
    path = _configuration(pair.aqn)
    path.write_text(path.read_text(encoding="utf-8").replace("lr: 0.0002", "lr: 0.0004"), encoding="utf-8")


@honest(MANIFEST, Link.TRAINED_ON)
def configuration_in_another_order(pair: RunPair) -> None:
    path = _configuration(pair.aqn)
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump(dict(reversed(content.items())), sort_keys=False), encoding="utf-8")


@caught(MANIFEST, Link.TRAINED_ON, "not comparable", "RLX902", twin="another-place-and-user")
def another_validation_temperature(pair: RunPair) -> None:
    pair.aqn.plan["recipe"]["eval"]["temperature"] = 1.0


@caught(MANIFEST, Link.TRAINED_ON, "not comparable", "RLX902", twin="the-reward-from-another-place")
def another_reward_as_the_treatment(pair: RunPair) -> None:
    _declare(pair.aqn, "reward", function="partial_credit")


@caught(MANIFEST, Link.TRAINED_ON, "not comparable", "RLX902", twin="the-reward-from-another-place")
def another_reward_file_of_the_same_name(pair: RunPair) -> None:
    (file,) = [file for file in pair.aqn.plan["files"] if file["path"] == "payload/reward.py"]
    file["sha256"] = "0" * 64


@honest(MANIFEST, Link.TRAINED_ON)
def the_reward_from_another_place(pair: RunPair) -> None:
    """As launched from another checkout."""
    pair.aqn.plan["recipe"]["reward"]["path"] = "/home/somebody/recipes/reward.py"


@caught(MANIFEST, Link.TRAINED_ON, "not comparable", "RLX902", twin="another-sampling-in-the-training-declared")
def longer_answers_as_the_treatment(pair: RunPair) -> None:
    _declare(pair.aqn, "data", max_response_tokens=16)


@caught(MANIFEST, Link.TRAINED_ON, "not comparable", "RLX902", twin="another-sampling-in-the-training-declared")
def another_precision_as_the_treatment(pair: RunPair) -> None:
    _declare(pair.aqn, "model", dtype="bfloat16")


@caught(MANIFEST, Link.TRAINED_ON, "not comparable", "RLX902", twin="another-sampling-in-the-training-declared")
def another_nucleus_in_the_validation_declared(pair: RunPair) -> None:
    _declare(pair.aqn, "overrides", **{"actor_rollout_ref.rollout.val_kwargs.top_p": 0.5})


@honest(MANIFEST, Link.TRAINED_ON)
def another_sampling_in_the_training_declared(pair: RunPair) -> None:
    _declare(pair.aqn, "rollout", temperature=0.9, top_p=0.95)


@caught(MANIFEST, Link.TRAINED_ON, "not comparable", "RLX902", twin="configuration-in-another-order")
def another_nucleus_in_the_configuration(pair: RunPair) -> None:
    """No recipe says it: a file of the fork did."""
    path = _configuration(pair.aqn)
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    content["actor_rollout_ref"]["rollout"]["val_kwargs"]["top_p"] = 0.5
    path.write_text(yaml.safe_dump(content), encoding="utf-8")


@caught(MANIFEST, Link.TRAINED_ON, "not comparable", "RLX902", twin="an-added-key-in-both-arms")
def thinking_off_in_one_arm(pair: RunPair) -> None:
    """Added to the configuration, so that the key has a prefix."""
    _think(pair.aqn, "+")


@caught(MANIFEST, Link.TRAINED_ON, "not comparable", "RLX902", twin="an-added-key-in-both-arms")
def thinking_off_as_the_treatment(pair: RunPair) -> None:
    _think(pair.aqn, "++")
    pair.aqn.plan["treatment"] = [f"overrides.++{_THINKING}"]


@honest(MANIFEST, Link.TRAINED_ON)
def an_added_key_in_both_arms(pair: RunPair) -> None:
    """With another prefix in each."""
    _think(pair.baseline, "+")
    _think(pair.aqn, "++")


@caught(MANIFEST, Link.TRAINED_ON, "invalid", "RLX644", twin="values-in-other-words")
def another_batch_in_both_configurations(pair: RunPair) -> None:
    """A file of the fork comes after the command line."""
    for run in (pair.baseline, pair.aqn):
        _compose(run, "train_batch_size: 20", "train_batch_size: 10")


@caught(MANIFEST, Link.TRAINED_ON, "invalid", "RLX644", twin="values-in-other-words")
def another_precision_in_the_configuration(pair: RunPair) -> None:
    _compose(pair.aqn, "param_dtype: fp32", "param_dtype: bf16")


@caught(MANIFEST, Link.TRAINED_ON, "invalid", "RLX644", twin="an-added-key-in-both-arms")
def an_added_key_that_was_not_composed(pair: RunPair) -> None:
    pair.aqn.plan["command"].append(f"+{_THINKING}=False")


@honest(MANIFEST, Link.TRAINED_ON)
def values_in_other_words(pair: RunPair) -> None:
    """The last of two words counts, and a number may be written in several ways."""
    for run in (pair.baseline, pair.aqn):
        run.plan["command"] += ["data.train_batch_size=10", "++data.train_batch_size=20.0"]
        _compose(run, "lr: 0.0002", "lr: 2e-4")


@caught(MANIFEST, Link.TRAINED_ON, "not comparable", "RLX902", twin="the-same-weights-elsewhere")
def another_chat_template(pair: RunPair) -> None:
    _change_found(pair.aqn, chat_template="0" * 64)


@caught(MANIFEST, Link.TRAINED_ON, "warned", "RLX922", twin="promise-of-what-records-had-then")
def weights_that_one_run_did_not_record(pair: RunPair) -> None:
    path = pair.aqn.folder / "provenance.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    del found["model"]
    path.write_text(json.dumps(found), encoding="utf-8")


@honest(MANIFEST, Link.TRAINED_ON)
def another_place_and_user(pair: RunPair) -> None:
    pair.aqn.manifest["submitted_by"] |= {"user": "somebody", "machine": "elsewhere"}
    pair.aqn.manifest["created_epoch"] -= 7200.0


@unseen(
    MANIFEST,
    Link.TRAINED_ON,
    "a plan is the measure that a run is held to: whoever moves the line in it after the launch leaves no trace in "
    "what the machines wrote",
)
def line_moved_after_the_launch(pair: RunPair) -> None:
    shares = {step: 0.0 if step < 5 else 0.7 for step in range(1, 21)}
    for key in (REJECTED, REJECTED_TOKENS):
        pair.aqn.put(key, shares)
    pair.aqn.noise["min_trained_share"] = 0.05


def _declare(run: RunDirectory, section: str, **values: Any) -> None:
    """Change keys of a section of the recipe, as what the arm is there to change."""
    run.plan["recipe"][section].update(values)
    run.plan["treatment"].append(section)


def _change_found(run: RunDirectory, **facts: str) -> None:
    """Change what the run found of its model when it began."""
    path = run.folder / "provenance.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    found["model"] |= facts
    path.write_text(json.dumps(found), encoding="utf-8")


def _think(run: RunDirectory, prefix: str) -> None:
    """Switch thinking off in the recipe, the launch and the composed configuration."""
    run.plan["recipe"]["overrides"][f"{prefix}{_THINKING}"] = False
    run.plan["command"].append(f"{prefix}{_THINKING}=False")
    _compose(run, "apply_chat_template_kwargs: {}", "apply_chat_template_kwargs:\n    enable_thinking: false")


def _compose(run: RunDirectory, before: str, after: str) -> None:
    path = _configuration(run)
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")


def _configuration(run: RunDirectory) -> Path:
    return run.folder / "hydra/.hydra/config.yaml"
