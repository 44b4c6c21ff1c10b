"""The noise around one call of an engine's `generate`, with the records and the probe of rlx.

One process generates with one model: no other process exists to compare the digests with. What they show: the noise
stood until the call had ended (`digest_before` of the next record), and the weights were put back bit by bit, which is
checked here and ends a run that it is not true of.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections.abc import Iterator
from typing import Any

from rlx_trl_engine import EngineCompletions, TrlEngine


def injector_of_run() -> Any:
    """None where no arm of the recipe has noise: nothing travels then."""
    if importlib.util.find_spec("rlx_aqn") is None:
        return None
    from rlx_aqn import Injector

    return Injector.from_run_directory()


class NoisyRollout:
    """Generates with the weights of a phase, and leaves clean ones behind."""

    def __init__(self, engine: TrlEngine, injector: Any) -> None:
        self._engine = engine
        self._injector = injector
        self._probe: Any = _probe(engine, injector) if injector is not None else None

    @contextlib.contextmanager
    def serves(self, phase: str, step: int) -> Iterator[EngineCompletions]:
        """Wrap the engine's `generate` for as long as TRL prepares and makes its one call.

        By an attribute of the instance: what TRL does with the object otherwise is left alone.
        """
        owner = self._engine.owner
        call, answered = self._engine.watched(owner.generate)

        def generate(*arguments: Any, **options: Any) -> Any:
            with self._disturbed(phase, step):
                return call(*arguments, **options)

        owner.generate = generate
        try:
            yield answered
        finally:
            del owner.generate

    def look(self, phase: str, step: int) -> None:
        """Record and probe the weights of a phase without generating anything."""
        with self._disturbed(phase, step):
            pass

    @contextlib.contextmanager
    def _disturbed(self, phase: str, step: int) -> Iterator[None]:
        """Hold the weights of a phase, from a moment after the last sync to the end of the call."""
        if self._injector is None:
            yield
            return
        self._look(self._probe.clean())
        self._forget()
        event = self._injector.apply(self._engine.model, step, phase=phase)
        self._look(self._probe.pair(phase, step, event.sigma))
        try:
            yield
        finally:
            # What stands now opens the next record: the noise of this one, if it stood all the time.
            self._injector.restore()
            self._forget()
        if (digest := self._injector.standing_digest()) != event.digest_clean:
            raise RuntimeError(f"the weights did not come back after step {step}: {event.digest_clean}, then {digest}")

    def _look(self, look: Any) -> None:
        asyncio.run(look)

    def _forget(self) -> None:
        """Keys and values of other weights than the next ones."""
        if self._engine.forget is not None:
            asyncio.run(self._engine.forget())


def _probe(engine: TrlEngine, injector: Any) -> Any:
    from rlx_aqn_probe import NoiseProbe, fixed_rows

    rows = fixed_rows(engine.vocabulary, engine.longest - 1, engine.special)
    return NoiseProbe(rows, engine.score, injector.record, engine.forget, engine.cached)
