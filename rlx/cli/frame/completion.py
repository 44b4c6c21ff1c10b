"""Complete the values of arguments and options in a shell: what they take as `autocompletion=`."""

from __future__ import annotations

from collections.abc import Callable


def _from(name: str) -> Callable[[str], list[str]]:
    """Import the search when a word is being completed, and at no other time."""

    def complete(incomplete: str) -> list[str]:
        from rlx.api import completing

        words: list[str] = getattr(completing, name)(incomplete)
        return words

    return complete


RUNS = _from("run_names")
ARMS = _from("arm_names")
RECIPES = _from("recipe_names")
HOSTS = _from("host_names")
FINDINGS = _from("finding_ids")
TRACKERS = _from("tracker_names")
TAGS = _from("tag_words")
EXPERIMENTS = _from("experiment_names")
