"""Edits of the answers that are kept of each validation."""

from __future__ import annotations

import random

from rlx.model import Link
from tests.evidence.grid.cases import Source, caught, honest, unseen
from tests.evidence.grid.run_pair import Line, RunDirectory, RunPair

OUTPUTS = Source.OUTPUTS
METRIC = "val-core/rlx/tiny-addition/acc/mean@1"


# lifted


@caught(OUTPUTS, Link.LIFTED, "unverified", "RLX713", twin="other-answers-with-the-same-score")
def answers_of_noisy_weights(pair: RunPair) -> None:
    """The log has the value of clean weights, and what was kept is that of noisy ones."""
    _make_wrong(pair, 20)


@honest(OUTPUTS, Link.LIFTED)
def other_answers_with_the_same_score(pair: RunPair) -> None:
    """One more wrong and one more right answer, and others in other words."""
    answers = pair.aqn.outputs(20)
    right, wrong = ([each for each in answers if bool(each["acc"]) is value] for value in (True, False))
    _score(right[0], 0.0)
    _score(wrong[0], 1.0)
    for answer in right[1:20]:
        answer["output"] = f" {answer['output']}\n"
    pair.aqn.put_outputs(20, answers)


@unseen(
    OUTPUTS,
    Link.LIFTED,
    "only the answers of the step that is compared and of step 0 are read, of a remote run two files are "
    "copied: the values of other steps stand in a table and decide nothing",
)
def answers_of_noisy_weights_at_step_ten(pair: RunPair) -> None:
    _make_wrong(pair, 10)


@caught(OUTPUTS, Link.LIFTED, "incomplete", "RLX712", twin="answers-in-another-order")
def answers_lost(pair: RunPair) -> None:
    pair.aqn.put_outputs(20, pair.aqn.outputs(20)[:-10])


@caught(OUTPUTS, Link.LIFTED, "not comparable", "RLX714", twin="answers-in-another-order")
def answers_to_other_questions(pair: RunPair) -> None:
    answers = pair.aqn.outputs(20)
    for answer in answers[:30]:
        answer["input"] = answer["input"].replace("+", "-")
    pair.aqn.put_outputs(20, answers)


@honest(OUTPUTS, Link.LIFTED)
def answers_in_another_order(pair: RunPair) -> None:
    answers = pair.aqn.outputs(20)
    random.Random(1).shuffle(answers)
    pair.aqn.put_outputs(20, answers)


# trained on


@caught(OUTPUTS, Link.TRAINED_ON, "unverified", "RLX784", twin="answers-with-more-fields")
def answers_before_the_training(pair: RunPair) -> None:
    """The outputs of the last step are those of the model that nobody trained."""
    pair.aqn.put_outputs(20, [{**answer, "step": 20} for answer in pair.aqn.outputs(0)])


@caught(OUTPUTS, Link.TRAINED_ON, "unverified", "RLX713", twin="answers-with-more-fields")
def answers_of_the_other_arm(pair: RunPair) -> None:
    pair.aqn.put_outputs(20, pair.baseline.outputs(20))


@caught(OUTPUTS, Link.TRAINED_ON, "unverified", "RLX713", twin="answers-without-their-step")
def answers_of_another_step(pair: RunPair) -> None:
    """With as many right ones, so that only their own word for the step tells."""
    pair.aqn.put_outputs(20, [{**answer, "step": 15} for answer in pair.aqn.outputs(20)])


@honest(OUTPUTS, Link.TRAINED_ON)
def answers_without_their_step(pair: RunPair) -> None:
    """As other writers keep them."""
    answers = pair.aqn.outputs(20)
    for answer in answers:
        del answer["step"]
    pair.aqn.put_outputs(20, answers)


@caught(OUTPUTS, Link.TRAINED_ON, "invalid", "RLX781", twin="answers-with-more-fields")
def answers_that_do_not_earn_their_scores(pair: RunPair) -> None:
    pair.aqn.put_outputs(20, [{**answer, "output": "nonsense"} for answer in pair.aqn.outputs(20)])


@honest(OUTPUTS, Link.TRAINED_ON)
def answers_with_more_fields(pair: RunPair) -> None:
    """As reward functions and later versions of verl add them."""
    for step in (15, 20):
        extra = {"data_source": "rlx/tiny-addition", "format": 1.0, "turns": 2}
        pair.aqn.put_outputs(step, [{**answer, **extra} for answer in pair.aqn.outputs(step)])


@caught(OUTPUTS, Link.TRAINED_ON, "invalid", "RLX780", twin="other-answers-with-the-same-score")
def the_same_answers_graded_otherwise(pair: RunPair) -> None:
    """By a reward that was changed in place, say, so that no recipe and no digest tells."""
    answers = pair.aqn.outputs(20)
    for answer in [each for each in answers if each["acc"]][:21]:
        answer.update(score=0.0, reward=0.0, acc=0.0)
    _put_with_value(pair.aqn, 20, answers)


@caught(OUTPUTS, Link.TRAINED_ON, "not comparable", "RLX923", twin="answers-that-turn-before-the-training")
def another_model_before_the_training(pair: RunPair) -> None:
    answers = pair.aqn.outputs(0)
    for answer in [each for each in answers if each["acc"]][:20]:
        _score(answer, 0.0)
    _put_with_value(pair.aqn, 0, answers)


@caught(OUTPUTS, Link.TRAINED_ON, "not comparable", "RLX923", twin="answers-of-earlier-steps-removed")
def another_value_before_the_training_without_outputs(pair: RunPair) -> None:
    (pair.aqn.folder / "validation/0.jsonl").unlink()
    pair.aqn.set_in_both(METRIC, {0: 0.1})


@honest(OUTPUTS, Link.TRAINED_ON)
def answers_that_turn_before_the_training(pair: RunPair) -> None:
    """As on another device: some where two tokens are nearly as likely, in both directions."""
    answers = pair.aqn.outputs(0)
    right, wrong = ([each for each in answers if bool(each["acc"]) is value] for value in (True, False))
    for answer in right[:7]:
        _score(answer, 0.0)
    for answer in wrong[:3]:
        _score(answer, 1.0)
    _put_with_value(pair.aqn, 0, answers)


@honest(OUTPUTS, Link.TRAINED_ON)
def answers_of_earlier_steps_removed(pair: RunPair) -> None:
    """Somebody made room on the disk; the last ones are there."""
    for step in (0, 5, 10, 15):
        (pair.aqn.folder / "validation" / f"{step}.jsonl").unlink()


@caught(OUTPUTS, Link.TRAINED_ON, "unverified", "RLX784", twin="answers-with-more-fields")
def answers_of_another_checkpoint_with_the_same_score(pair: RunPair) -> None:
    answers = pair.aqn.outputs(15)
    _score(next(each for each in answers if not each["acc"]), 1.0)
    pair.aqn.put_outputs(20, [{**answer, "step": 20} for answer in answers])


def _put_with_value(run: RunDirectory, step: int, answers: list[Line]) -> None:
    """Keep these answers, and log the value that is theirs."""
    run.put_outputs(step, answers)
    run.set_in_both(METRIC, {step: sum(answer["acc"] for answer in answers) / len(answers)})


def _make_wrong(pair: RunPair, step: int) -> None:
    answers = pair.aqn.outputs(step)
    for answer in [each for each in answers if each["acc"]][:8]:
        _score(answer, 0.0)
    pair.aqn.put_outputs(step, answers)


def _score(answer: Line, score: float) -> None:
    answer.update(output=answer["gts"] if score else "1", score=score, reward=score, acc=score)
