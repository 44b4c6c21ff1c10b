"""Changes to the classes of another package, as its modules are imported."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from rlx_aqn_hook import HookPoint, PatchingFinder

SOURCE = "class Worker:\n    def sync(self, step):\n        return [step]\n"


def finder(word: str) -> PatchingFinder:
    def patch(cls: type) -> None:
        sync = cls.sync  # type: ignore[attr-defined]
        cls.sync = lambda self, step: [*sync(self, step), word]  # type: ignore[attr-defined]

    return PatchingFinder.of([HookPoint("worker", "an_engine", "Worker", "sync", ("self", "step"))], {"worker": patch})


@pytest.mark.parametrize("words", [["noise"], ["noise", "platform"], ["noise", "platform", "plugin"]])
def test_all_that_change_one_module_do(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "an_engine.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*map(finder, words), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "an_engine", raising=False)
    try:
        module = importlib.import_module("an_engine")
    finally:
        sys.modules.pop("an_engine", None)
    assert module.Worker().sync(1) == [1, *reversed(words)]
