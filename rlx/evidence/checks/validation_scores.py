"""Check the scores of validations by their kept answers: RLX780 to RLX784.

A contradiction is an error only if the grader is a rule that rlx replays. For every other grader the same is shown with
counts and an example: a model as judge may vary, and a function may require more than the right answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.grammars import by_kind
from rlx.evidence.metrics import core_metric, data_sources
from rlx.evidence.modes import Mode, setting
from rlx.evidence.run_configuration import has_own_reward
from rlx.evidence.run_evidence import Counted, KeptAnswers
from rlx.evidence.verdict import CheckFinding, at_steps, contradiction, counted, invalid, remark
from rlx.model import Severity
from rlx.model.run_dir import PAYLOAD_DIR
from rlx.payload.replayed_graders import BOXED, EXACT, grader_of_file

_FEW, _FEW_SHARE = 2, 0.01
_MANY_TRUTHS = 3
_TRAINED_STEPS = 5
_REWARD_FILE = f"{PAYLOAD_DIR}/reward.py"
_FIX = "find out what grades the validation, and launch again"


def check(given: CheckInput) -> Iterator[CheckFinding]:
    """Report scores that the kept answers contradict, and outputs that are copies."""
    kept = {step: found for step, found in sorted(given.evidence.outputs.items()) if found.read}
    yield from _copied(kept)
    yield from _unchanged(kept)
    if Mode.MULTI_TURN in given.modes or any(found.is_multi_turn for found in kept.values()):
        return  # a line is a turn, and its score that of the whole conversation
    yield from _GradedAnswers(kept, _grader(given)).findings()


def _grader(given: CheckInput) -> str:
    """Return the rule that graded the validations; "" where it is unknown, or not one that rlx replays."""
    setup, grammar = given.setup, by_kind().get(given.evidence.backend)
    recipe, settings = setup.recipe, given.evidence.settings
    reward, eval_ = recipe.get("reward"), recipe.get("eval")
    if grammar is None or (isinstance(eval_, Mapping) and eval_.get("post")):
        return ""
    passed_on = any(key.endswith(own) for key in settings for own in grammar.own_reward)
    others = (setting(setup.configuration, key) for key in grammar.scored_by)
    if passed_on or any(found and found != "naive" and not isinstance(found, Mapping) for found in others):
        return ""
    if isinstance(reward, Mapping):
        return grader_of_file(setup.sent.get(_REWARD_FILE, ""), reward.get("kwargs") or {})
    sources = data_sources(given.evidence, core_metric(given.evidence, given.expectations))
    if not isinstance(reward, str) or has_own_reward(settings) or len(sources) != 1:
        return ""
    return grammar.graders.get(sources[0], "")


@dataclass(frozen=True, slots=True)
class _GradedAnswers:
    """The validations of a run, and the grader that rlx replays; "" for another one."""

    kept: Mapping[int, KeptAnswers]
    grader: str

    def findings(self) -> Iterator[CheckFinding]:
        yield from self._refused()
        yield from self._accepted()
        yield from self._one_for_many()
        yield from self._graded_otherwise()

    def _refused(self) -> Iterator[CheckFinding]:
        name = self.grader or EXACT
        found = self._more_than_few(lambda kept: kept.replays[name].refused if name in kept.replays else Counted())
        if not found:
            return
        step, refused = next(iter(found.items()))
        what = "that are right by the grader's own rule" if self.grader else "that equal the right one"
        message = f"{counted(refused.number, 'answer')} {what} were scored 0 at {_first(found)}: {refused.example}"
        if self.grader:
            yield invalid("RLX780", message, _FIX, step)
            return
        # If no bare answer is ever right, the reward may require a format around it.
        is_mixed = any(
            each.right > each.refused.number for kept in self.kept.values() if (each := kept.replays.get(EXACT))
        )
        severity = Severity.WARNING if is_mixed else Severity.NOTE
        yield remark("RLX780", severity, message, "does the reward require more than the right answer?", step)

    def _accepted(self) -> Iterator[CheckFinding]:
        """Report wrong answers that were scored 1, which only a replay can recognise."""
        if not self.grader:
            return
        found = self._more_than_few(
            lambda kept: kept.replays[self.grader].accepted if self.grader in kept.replays else Counted()
        )
        if found:
            step, accepted = next(iter(found.items()))
            yield invalid(
                "RLX781",
                f"{counted(accepted.number, 'answer')} that are wrong by the grader's own rule were scored 1 at "
                f"{_first(found)}: {accepted.example}",
                _FIX,
                step,
            )

    def _one_for_many(self) -> Iterator[CheckFinding]:
        if self.grader not in ("", BOXED):
            return  # a replay decides it for each answer
        found = {
            step: kept.one_for_many for step, kept in self.kept.items() if kept.one_for_many.number >= _MANY_TRUTHS
        }
        if not found:
            return
        step, most = max(found.items(), key=lambda item: item[1].number)
        message = (
            f"one answer was scored right for {most.number} different right answers at step {step}: {most.example}"
        )
        if self.grader:
            yield invalid("RLX781", message, _FIX, step)
        else:
            yield remark("RLX781", Severity.WARNING, message, "read the answers: is the grader too lenient?", step)

    def _graded_otherwise(self) -> Iterator[CheckFinding]:
        many = self._more_than_few(lambda kept: kept.graded_before)
        any_ = {step: kept.graded_before for step, kept in self.kept.items() if kept.graded_before.number}
        found = many or (any_ if self.grader else {})
        if not found:
            return
        step, first = next(iter(found.items()))
        message = (
            f"{counted(first.number, 'answer')} to the same items were graded differently than before at "
            f"{_first(found)}: {first.example}"
        )
        if self.grader and many:
            yield invalid("RLX782", message, "find out what changed in the grader during the run; launch again", step)
        else:
            fix = "find out whether the judge, its sampling or the function changed during the run"
            yield remark("RLX782", Severity.WARNING, message, fix, step)

    def _more_than_few(self, count: Callable[[KeptAnswers], Counted]) -> dict[int, Counted]:
        found = {step: (count(kept), max(_FEW, _FEW_SHARE * kept.read)) for step, kept in self.kept.items()}
        return {step: seen for step, (seen, few) in found.items() if seen.number > few}


def _unchanged(kept: Mapping[int, KeptAnswers]) -> Iterator[CheckFinding]:
    """Warn of answers that do not change. A solved task may look like that in greedy validations."""
    steps = [step for step, found in kept.items() if found.digest]
    if len(steps) < 2 or steps[-1] - steps[0] < _TRAINED_STEPS or len({kept[step].digest for step in steps}) > 1:
        return
    yield remark(
        "RLX783",
        Severity.WARNING,
        f"the answers do not change: those of all {len(steps)} validations, steps {steps[0]} to {steps[-1]}, are equal "
        "word for word",
        "check that the rollout gets the trained weights; a solved task with greedy answers looks the same",
        steps[-1],
    )


def _copied(kept: Mapping[int, KeptAnswers]) -> Iterator[CheckFinding]:
    first: dict[str, int] = {}
    copies: dict[int, int] = {}
    for step, found in kept.items():
        for id_ in found.ids:
            if first.setdefault(id_, step) != step:
                copies.setdefault(step, first[id_])
    if copies:
        step, source = next(iter(copies.items()))
        yield contradiction(
            "RLX784",
            f"the outputs kept of {at_steps(copies)} are a copy of those of step {source}: their unique ids are "
            "equal, and each validation generates new ones",
            "check whether the validation ran, and whether something else wrote its files",
            step,
        )


def _first(found: Mapping[int, object]) -> str:
    """Write `step 5 (and others at steps 10, 15)`."""
    first, *others = found
    return at_steps([first]) + (f" (and others at {at_steps(others)})" if others else "")
