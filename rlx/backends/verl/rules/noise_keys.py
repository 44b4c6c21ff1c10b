"""Noise that a fork of verl brings itself, where the verl of the run has no keys for it."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import VerlFacts
from rlx.preflight.rules.registry import Flaw, error, rule

_SECTION = "trainer.noise_injection"


@rule(
    "RLX629",
    title="the noise is to be verl's own, and this verl has none",
    why="the keys are added and nobody reads them: the arm trains without noise, and ends well",
    fix="`aqn.provider: payload`, or a fork that has `trainer.noise_injection`; name its keys in `backend.key_source`",
    source="no configuration of verl 0.6.1 to 0.9.1 has trainer.noise_injection (rlx/backends/verl/keys); at a launch "
    "the configuration that the host has counts",
)
def no_noise_of_its_own(facts: VerlFacts) -> Iterator[Flaw]:
    aqn = facts.recipe.aqn
    if aqn is None or aqn.provider != "builtin" or _knows_noise(facts):
        return
    where = f"on {facts.found.where} " if facts.found and facts.found.folder else ""
    message = f"aqn.provider builtin: verl {facts.settings.version} {where}has no key {_SECTION}"
    fix = "aqn.provider payload, which rlx brings along, or a fork that has the key: name it in backend.key_source"
    yield error(f"{message}, so the arm would train without noise", fix, "aqn.provider")


def _knows_noise(facts: VerlFacts) -> bool:
    return any(key == _SECTION or key.startswith(f"{_SECTION}.") for key in facts.settings.defaults)
