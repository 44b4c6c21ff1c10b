"""Decide whether the runs of one arm are samples of different seeds, by what the runs themselves show.

A number that a person typed is no seed of a training: a launch script may pass it to nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rlx.evidence import JudgedRun, seeds_of_config
from rlx.model.verdict_rules import is_made

_CONFIGS = ("config", "printed_config")
_NAMED = 5


def why_repeats(runs: Sequence[JudgedRun]) -> str:
    """Say why these runs, named after different seeds, are repeats of one seed; "" where each shows its own.

    Runs that are named after the same seed are another matter (RLX908). Older rules take each for what it is named.
    """
    is_asked = all(is_made("RLX913", run.verdict.rules) for run in runs)
    if len({run.seed for run in runs}) < 2 or not is_asked:
        return ""
    if hidden := [run for run in runs if _shown(run) is None]:
        return _not_shown(sorted({run.seed for run in hidden}))
    shown: dict[Hashable, JudgedRun] = {}
    for run in runs:
        first = shown.setdefault(_shown(run), run)
        if first.seed != run.seed:
            return f"the configurations of the runs with the seeds {first.seed} and {run.seed} have the same seeds"
    return ""


def _shown(run: JudgedRun) -> Hashable:
    """Identify the seed that a run shows: the seeds of its configuration, else the one that rlx wrote into its launch.

    None where the configuration has other seeds than the run is named after, or nothing shows a seed.
    """
    found = (seeds_of_config(run.provenance.get(kind, {})) for kind in _CONFIGS)
    if seeds := next(filter(None, found), None):
        return tuple(sorted(seeds.items())) if run.seed in seeds.values() else None
    return run.seed if run.plan.is_launched and run.plan.recipe.get("seed") == run.seed else None


def _not_shown(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"the seed {seeds[0]} does not appear in the run's configuration or log"
    more = f" and {len(seeds) - _NAMED} more" if len(seeds) > _NAMED else ""
    return f"the seeds {', '.join(map(str, seeds[:_NAMED]))}{more} do not appear in the runs' configurations or logs"
