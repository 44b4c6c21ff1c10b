"""The requirements of verl on the machine that runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rlx.backends.verl.rules.reward import PASSED
from rlx.planning.host_requirements import BackendHost, DataFile, HostFinding, data_files
from rlx.yaml_reader.hydra import bare_leaves

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

_SECTIONS = ("reward.custom_reward_function", "custom_reward_function")


def _files(recipe: Recipe) -> Iterator[DataFile]:
    """Model and tables, and a reward function of the host's own; the recipe's own one travels with the run."""
    yield from data_files(recipe)
    keys = bare_leaves(recipe.overrides)
    for section in _SECTIONS:
        path, name = keys.get(f"{section}.path"), keys.get(f"{section}.name", "compute_score")
        if isinstance(path, str) and "${" not in path:
            own = (key.removeprefix(f"{section}.reward_kwargs.") for key in keys if f"{section}.reward_kwargs." in key)
            yield DataFile("reward", path, key=str(name), passed=(*PASSED, *own))


def _reward(wanted: DataFile, facts: Mapping[str, Any]) -> Iterator[HostFinding]:
    """Check the host's reward function, unless it is decorated, imported or assigned, which is not read."""
    label = f"custom_reward_function.path: {wanted.path}"
    if facts["kind"] != "file":
        yield HostFinding(
            "RLX550", f"{label} is no file there", "copy it there, or let it travel: reward: {path, function}"
        )
        return
    if facts.get("unread"):
        yield HostFinding("RLX554", f"{label} cannot be read: {facts['unread']}", "correct the file")
        return
    function = facts.get("functions", {}).get(wanted.key)
    if function is None:
        return
    refused = [] if function["any"] else [name for name in wanted.passed if name not in function["names"]]
    lacking = [name for name in function["wants"] if name not in wanted.passed]
    if refused or lacking:
        takes = f"takes no {', '.join(refused)}" if refused else f"wants {', '.join(lacking)}, which verl never passes"
        fix = f"def {wanted.key}({', '.join(wanted.passed[:3])}, extra_info=None, **kwargs)"
        yield HostFinding("RLX554", f"{label}: {wanted.key} {takes}", fix)


# In a checkout that is not installed only this file has the version.
HOST = BackendHost(
    name="verl",
    packages=("verl",),
    version_file="version/version",
    starts_ray=True,
    joins_ray=True,
    files=_files,
    file_checks={"reward": _reward},
)
