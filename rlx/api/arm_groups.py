"""Take the arms that names mean from one group: a launch, or all launches of one registered experiment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.api.telling import Tell
    from rlx.runs import Index, RunRef

    Runs = Sequence[RunRef]

_MOST = 6
_FINISHED, _GOING, _ENDED = range(3)
"""What is known of some runs: all have finished, some may still finish, some ended otherwise."""


def from_one_group(
    index: Index, names: Sequence[str], found: Sequence[Runs], seeds: Collection[int], tell: Tell
) -> list[Runs]:
    """The runs of each name in the newest group in which all names have runs, with these seeds, that have finished.

    `found`: the runs of each name by itself; those of an id or a list stay. A run on another host that was not seen to
    end may have finished: no host is asked. Without such a group each name means its only group, or the only one whose
    runs have finished, or else still may. Raises UsageError where that leaves a choice, or runs of several experiments.
    """
    from rlx.api.left_out import known_states
    from rlx.runs.index.resolve import called, named_runs

    refs = named_runs(index)
    meant = [called(refs, name) for name in names]
    options = [_with_seeds(runs, seeds) for runs in meant if runs]
    every = dict.fromkeys(chain(*options))
    if len({ref.launch_id for ref in chain(*meant)}) < 2 or not all(options):
        return list(found)
    fixed = [*chain(*(own for own, runs in zip(found, meant, strict=True) if not runs))]
    states, keys = known_states(index, [*every]), _group_keys(index, [*every, *fixed])
    pinned = {keys[ref.run_id] for ref in fixed}
    groups: dict[str, list[RunRef]] = {keys[ref.run_id]: [] for ref in refs if ref in every}
    for ref in every:
        groups[keys[ref.run_id]].append(ref)
    ready = ((key, _finished_in([_in(key, keys, runs) for runs in options], states)) for key in groups)
    taken, arms = next(((key, arms) for key, arms in ready if arms and pinned <= {key}), ("", None))
    if arms and len(groups) > 1:
        others = [runs for key, runs in groups.items() if key != taken]
        tell(f"taken: {_words(groups[taken], states)}; not taken: {_listed(others, states)}")
    named = [name for name, runs in zip(names, meant, strict=True) if runs]
    arms = arms or _only_way(named, options, keys, states)
    if arms is None:
        raise UsageError(
            f"{' and '.join(named)}: several launches have runs of these names, and none has finished runs of all of "
            f"them: {_listed([*groups.values()], states)}",
            "name the runs of each arm by their ids, joined by commas (rlx status LAUNCH shows them), or take a launch "
            "out of names (rlx rm LAUNCH)",
        )
    chosen = iter(arms)
    return [next(chosen) if runs else own for own, runs in zip(found, meant, strict=True)]


def _with_seeds(runs: Runs, seeds: Collection[int]) -> Runs:
    """The runs with these seeds, of the launches that have each of them."""
    have: dict[str, set[int]] = {}
    for ref in runs:
        have.setdefault(ref.launch_id, set()).add(ref.seed)
    return [ref for ref in runs if not seeds or (ref.seed in seeds and have[ref.launch_id] >= {*seeds})]


def _group_keys(index: Index, refs: Sequence[RunRef]) -> Mapping[str, str]:
    """The group of each run by its id: the experiment that its manifest here is registered for, else its launch."""
    from rlx.runs import read_manifest
    from rlx.runs.copies.mirror import kept

    copies = kept(index, refs)
    plans = {run_id: manifest.plan for run_id, copy in copies.items() if (manifest := read_manifest(copy.run_dir))}
    asked = {run_id: plan.registration.content for run_id, plan in plans.items() if plan.registration}
    return {ref.run_id: asked.get(ref.run_id, ref.launch_id) for ref in refs}


def _in(key: str, keys: Mapping[str, str], runs: Runs) -> Runs:
    return [ref for ref in runs if keys[ref.run_id] == key]


def _finished_in(options: Sequence[Runs], states: Mapping[str, str]) -> list[Runs] | None:
    """The runs of each name in the newest launch that has them all finished, else in the newest launch of each name."""
    launches = dict.fromkeys(ref.launch_id for ref in chain(*options))
    together = [[_of_launch(runs, launch) for runs in options] for launch in launches]
    apart = [_newest(runs) for runs in options]
    arms = (each for each in (*together, apart) if all(each))
    return next((each for each in arms if _rank(chain(*each), states) == _FINISHED), None)


def _only_way(
    names: Sequence[str], options: Sequence[Runs], keys: Mapping[str, str], states: Mapping[str, str]
) -> list[Runs] | None:
    """The runs of each name in its only group of the best rank.

    None where it has several, and where names that do not name their experiment are of several.
    """
    arms: list[Runs] = []
    for runs in options:
        own = [_newest(_in(key, keys, runs)) for key in dict.fromkeys(keys[ref.run_id] for ref in runs)]
        ranks = [_rank(each, states) for each in own]
        if ranks.count(min(ranks)) > 1:
            return None
        arms.append(own[ranks.index(min(ranks))])
    bare = (runs for name, runs in zip(names, arms, strict=True) if name in (runs[0].arm, runs[0].short_name))
    return arms if len({ref.name for ref in chain(*bare)}) < 2 else None


def _of_launch(runs: Runs, launch_id: str) -> Runs:
    return [ref for ref in runs if ref.launch_id == launch_id]


def _newest(runs: Runs) -> Runs:
    return _of_launch(runs, runs[0].launch_id) if runs else ()


def _rank(runs: Iterable[RunRef], states: Mapping[str, str]) -> int:
    from rlx.model import RunState

    def rank(ref: RunRef) -> int:
        state = RunState(states.get(ref.run_id) or RunState.UNREACHABLE)
        if state is RunState.FINISHED or not (state.is_terminal or ref.place.is_local):
            return _FINISHED
        return _ENDED if state.is_terminal else _GOING

    return max(map(rank, runs))


def _listed(groups: Sequence[Runs], states: Mapping[str, str]) -> str:
    more = f" and {len(groups) - _MOST} more" if len(groups) > _MOST else ""
    return "; ".join(_words(runs, states) for runs in groups[:_MOST]) + more


def _words(runs: Runs, states: Mapping[str, str]) -> str:
    """`20261120-120000-abcdef of gsm8k, launched 2026-11-20 12:00:00 (baseline finished, fast failed)`."""
    from rlx.api.judged_comparison import moment

    launches = " and ".join(dict.fromkeys(ref.launch_id for ref in runs))
    seen = dict.fromkeys(f"{ref.arm} {states.get(ref.run_id) or 'never seen'}" for ref in runs)
    return f"{launches} of {runs[0].name}, launched {moment(runs[0].created)} ({', '.join(seen)})"
