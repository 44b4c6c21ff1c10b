"""Complete the values of arguments and options in a shell: what they take as `autocompletion=`."""

from __future__ import annotations

from collections.abc import Callable


def _from(name: str, *, lists: bool = False) -> Callable[[str], list[str]]:
    """Import the search when a word is being completed, and at no other time. With `lists`, after each comma anew."""

    def complete(incomplete: str) -> list[str]:
        from rlx.api import completing

        before, comma, last = incomplete.rpartition(",") if lists else ("", "", incomplete)
        words: list[str] = getattr(completing, name)(last)
        return [f"{before}{comma}{word}" for word in words]

    return complete


RUNS = _from("run_names", lists=True)
ARMS = _from("arm_names", lists=True)
RECIPES = _from("recipe_names")
HOSTS = _from("host_names", lists=True)
FINDINGS = _from("finding_ids")
TRACKERS = _from("tracker_names")
TAGS = _from("tag_words")
EXPERIMENTS = _from("experiment_names")
