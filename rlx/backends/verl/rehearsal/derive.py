"""Derive the rehearsal of a recipe: the same one in small, for stock verl on this CPU."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rlx.backends.verl.rehearsal import changes as topics
from rlx.backends.verl.rehearsal.keys import fork_keys_untold, translated
from rlx.backends.verl.rehearsal.made_up_rows import SCHEMA
from rlx.backends.verl.rehearsal.recorded_reward import Reward, reward_of
from rlx.backends.verl.rehearsal.scale import Batch, batch_of, scaled
from rlx.backends.verl.rules.facts import VerlFacts
from rlx.errors import UsageError
from rlx.model import Severity
from rlx.planning.rehearsal.rows import Rows, rows_of
from rlx.planning.rehearsal.tiny_shapes import TinyModel, tiny_model_of
from rlx.planning.rehearsal.twin import Change, Engine, Places, Rehearsal, Untold
from rlx.planning.rules import check
from rlx.planning.rules.facts import facts_of

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe


def rehearsal_of(resolved: ResolvedRecipe, places: Places, secrets: tuple[str, ...], engine: Engine) -> Rehearsal:
    """The recipe in small. `secrets`: those of its secrets that are set here.

    Raises UsageError for a critic, or a batch that cannot be scaled; RlxError for data that
    is here and cannot be read.
    """
    if resolved.recipe.algorithm.kind == "ppo":
        # verl 0.9.1, utils/model.py, load_valuehead_model: attn_implementation="flash_attention_2", whatever is set.
        message = "algorithm.kind ppo: verl loads a critic with flash attention only, which no CPU has"
        raise UsageError(message, "rehearse the rest of the recipe: --set algorithm.kind=grpo")
    facts = facts_of(resolved)
    assert isinstance(facts, VerlFacts)
    model = tiny_model_of(resolved, engine.head_dim)
    return _Maker(resolved, places, model, batch_of(facts), secrets, engine).smallest()


@dataclass(frozen=True)
class _Maker:
    resolved: ResolvedRecipe
    places: Places
    model: TinyModel
    whole: Batch
    secrets: tuple[str, ...]
    engine: Engine

    def smallest(self) -> Rehearsal:
        """The rehearsal with the smallest batch about which no rule complains."""
        complaint = ""
        for factor, batch in scaled(self.whole):
            made = self._twin(factor, batch, self._rows(batch))
            errors = [finding for finding in check(made.resolved) if finding.severity is Severity.ERROR]
            if not errors:
                return made
            complaint = complaint or f"{errors[0].id} {errors[0].message}"
        raise UsageError(f"no smaller batch keeps the rules: {complaint}", "rlx validate tells about the recipe itself")

    def _rows(self, batch: Batch) -> Mapping[str, Rows]:
        counts = {"train": topics.STEPS * batch.batch, "val": topics.VAL_ROWS}
        return {role: rows_of(self.resolved.recipe.data, role, count, SCHEMA) for role, count in counts.items()}

    def _twin(self, factor: int, batch: Batch, rows: Mapping[str, Rows]) -> Rehearsal:
        reward = reward_of(self.resolved.recipe, rows["train"].is_own)
        changes = tuple(self._changes(factor, batch, rows))
        document = _applied(self.resolved.document, changes)
        document |= {"reward": reward.section, "waive": {}}
        changed = {one.key for one in changes if one.recipe != one.rehearsed}
        kept, said = translated(self._resolved(document), changed | reward.changed)
        document["overrides"] = dict(kept)
        shown = [one for one in (*changes, *reward.changes) if one.recipe != one.rehearsed]
        return Rehearsal(
            resolved=self._resolved(document),
            factor=factor,
            model=self.model,
            changes=(*shown, *(one for one in said if isinstance(one, Change))),
            untold=tuple(self._untold(reward, said)),
            files=reward.files,
            rows=rows,
            engine=self.engine,
        )

    def _changes(self, factor: int, batch: Batch, rows: Mapping[str, Rows]) -> Iterator[Change]:
        recipe = self.resolved.recipe
        prompt = max(one.prompt_tokens(recipe.data.prompt_key) for one in rows.values())
        yield from topics.backend(recipe, self.engine)
        yield from topics.layout(recipe, batch)
        yield from topics.model(recipe, self.places, self.model.shown)
        yield from topics.data(recipe, self.places, batch, prompt, (rows["train"].said, rows["val"].said))
        yield from topics.batches(recipe, self.whole, batch, factor)
        yield from topics.rollout(recipe, self.engine, batch.devices)
        yield from topics.rest(recipe, self.secrets)

    def _untold(self, reward: Reward, said: Iterable[Change | Untold]) -> Iterator[Untold]:
        yield from topics.untold(self.resolved.recipe, self.engine)
        if facts_of(self.resolved).architecture is None:
            yield Untold(f"the architecture of {self.resolved.recipe.model.path}", "not known here: name model.arch")
        yield from fork_keys_untold(self.resolved)
        yield from reward.untold
        yield from (one for one in said if isinstance(one, Untold))

    def _resolved(self, document: Mapping[str, Any]) -> ResolvedRecipe:
        from rlx.recipe import Recipe

        made = Recipe.model_validate(document)
        return replace(self.resolved, recipe=made, document=document, origins={}, experiment=None)


def _applied(document: Mapping[str, Any], changes: Iterable[Change]) -> dict[str, Any]:
    changed = copy.deepcopy(dict(document))
    for change in changes:
        *sections, key = change.key.split(".")
        place = changed
        for section in sections:
            place = place[section]
        place[key] = change.rehearsed
    return changed
