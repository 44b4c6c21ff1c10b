"""Noise that a fork of verl brings itself, where the verl of the run has no keys for it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rlx.backends.verl.rules.facts import VerlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule

_SECTION = "trainer.noise_injection"


@rule("RLX629")
def no_noise_of_its_own(facts: VerlFacts) -> Iterator[Flaw]:
    aqn = facts.recipe.aqn
    if aqn is None or aqn.provider != "builtin" or _may_have_noise(facts):
        return
    where = f" on {facts.found.where}" if facts.found and facts.found.folder else ""
    message = f"aqn.provider builtin: verl {facts.settings.version}{where} has no key {_SECTION}"
    fix = "aqn.provider payload, which rlx brings along, or a fork that has the key: name it in backend.key_source"
    yield error(f"{message}, so the arm would train without noise", fix, "aqn.provider")


def _may_have_noise(facts: VerlFacts) -> bool:
    """By the configuration on the host; before anybody looked there, a recipe that names a fork's keys is believed."""
    if facts.found and facts.found.folder:
        return _names_noise(facts.found.folder)
    return bool(facts.recipe.backend.key_source) or any(key.startswith(_SECTION) for key in facts.settings.defaults)


@cache
def _names_noise(folder: Path) -> bool:
    """In any trainer's configuration, since a fork reads the keys for all of them and lists them for one."""
    name = _SECTION.rpartition(".")[2]
    files = (file for file in folder.rglob("*.yaml") if file.is_file())
    return any(name in file.read_text(encoding="utf-8", errors="replace") for file in files)
