"""A resolved recipe as settings of MindSpeed-RL's YAML, one module a section, and the YAML itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlx.backends.mindspeed_rl.models import SHIPPED
from rlx.backends.mindspeed_rl.sections import generate, megatron, rl
from rlx.backends.mindspeed_rl.sections.base import HYDRA_DIR, Rendering
from rlx.backends.shared.effective import EffectiveSettings
from rlx.backends.shared.hydra_values import refuse_interpolation
from rlx.backends.shared.overrides import Override, run_path

_SECTIONS = (megatron.overrides, rl.overrides, generate.overrides)


def rendered(rendering: Rendering) -> tuple[Override, ...]:
    """Render what rlx itself writes, without the recipe's own `overrides`."""
    # Hydra's default is a folder in the working directory, which the runs share.
    own = Override(HYDRA_DIR, run_path("RLX_ATTEMPT_DIR", "hydra"), "name", verbatim=True)
    return (*(setting for section in _SECTIONS for setting in section(rendering)), own)


def chosen(rendering: Rendering) -> tuple[Override, ...]:
    """Render what rlx writes, with the recipe's `overrides` in place of their own and behind it."""
    own = own_overrides(rendering)
    taken = {setting.key for setting in own}
    kept = (setting for setting in leaves(rendered(rendering)) if setting.key not in taken)
    return tuple(setting for setting in (*kept, *leaves(own)) if setting.prefix != "~")


def own_overrides(rendering: Rendering) -> tuple[Override, ...]:
    """The recipe's `overrides`, with the names of keys as MindSpeed-RL reads them: `-` is `_`."""
    return tuple(
        Override.read(key if "/" in key else key.replace("-", "_"), value)
        for key, value in rendering.recipe.overrides.items()
    )


def leaves(settings: tuple[Override, ...]) -> Iterator[Override]:
    """A map sets the keys below it, one by one."""
    for setting in settings:
        if isinstance(setting.value, dict) and setting.value and setting.prefix != "~":
            below = (
                Override(f"{setting.key}.{name}", value, setting.source, setting.prefix, setting.verbatim)
                for name, value in setting.value.items()
            )
            yield from leaves(tuple(below))
        else:
            yield setting


def settings_of(rendering: Rendering) -> EffectiveSettings:
    """The classes' defaults with the YAML over them."""
    overrides = chosen(rendering)
    return EffectiveSettings(
        rendering.version,
        rendering.table.defaults,
        {setting.key: setting.value for setting in overrides},
        {setting.key: setting.source for setting in overrides},
        frozenset(setting.key for setting in own_overrides(rendering) if setting.prefix == "~"),
    )


def document(rendering: Rendering) -> dict[str, Any]:
    """The YAML's content. Raises UsageError for text that OmegaConf would replace."""
    result: dict[str, Any] = {}
    if rendering.model_name in SHIPPED:
        result["defaults"] = [{"model": [rendering.model_name]}, "_self_"]
    for setting in chosen(rendering):
        if not setting.verbatim:
            refuse_interpolation(setting.value, setting.source)
        _put(result, setting.key.split("."), setting.value)
    return result


def _put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    *folders, name = path
    for folder in folders:
        inner = tree.setdefault(folder, {})
        if not isinstance(inner, dict):
            inner = tree[folder] = {}
        tree = inner
    tree[name] = value


__all__ = ["Override", "Rendering", "chosen", "document", "leaves", "own_overrides", "rendered", "settings_of"]
