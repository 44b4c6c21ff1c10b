"""verl's own Tracking with the payload's guard: a tracker that fails takes neither training nor record along."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.wording import settled


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The payload's module. Imported where verl is loaded, it would hook the verl of all later tests here."""
    monkeypatch.delitem(sys.modules, "verl", raising=False)
    import rlx_verl_track

    return rlx_verl_track


@pytest.fixture
def tracking(hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A class of its own, hooked; verl's stays as it is."""
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(tmp_path / "metrics.jsonl"))
    hooked = type("Hooked", (_tracking_of_verl(),), {})
    hook.hook_tracking(hooked)
    return hooked


def _tracking_of_verl() -> Any:
    """Of its file alone, since `import verl` takes eight seconds."""
    folder = importlib.util.find_spec("verl")
    assert folder is not None and folder.origin is not None
    spec = importlib.util.spec_from_file_location("tracking_of_verl", Path(folder.origin).parent / "utils/tracking.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made.Tracking


def module(name: str, **functions: Any) -> ModuleType:
    made = ModuleType(name)
    for key, function in functions.items():
        setattr(made, key, function)
    return made


def raises(*_: Any, **__: Any) -> None:
    raise ConnectionError("api_key not\nconfigured")


def test_what_fails_is_told_and_let_go(
    tracking: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logged: list[int] = []
    monkeypatch.setitem(sys.modules, "wandb", module("wandb", init=raises))
    monkeypatch.setitem(sys.modules, "trackio", None)  # importing it raises
    works_once = module(
        "swanlab",
        init=lambda **_: None,
        log=lambda data, step: logged.append(step) if step == 0 else raises(),
        finish=lambda: logged.append(-1),
    )
    monkeypatch.setitem(sys.modules, "swanlab", works_once)
    kept = tracking("p", "aqn-s1", ["file", "wandb", "trackio", "swanlab"], config={})
    assert set(kept.logger) == {"file", "swanlab"}
    for step in range(3):
        kept.log({"loss": 0.5 + step}, step=step)
    kept.finish()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2]
    assert logged == [0]  # nothing more is asked of what failed once, not even its end
    told = [line for line in capsys.readouterr().out.splitlines() if "the run goes on without it" in line]
    assert [line.split()[3] for line in told] == ["wandb", "trackio", "swanlab"]
    assert told[0].endswith("ConnectionError: api_key not configured")


def test_mlflow_gets_its_tags(tracking: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """verl does not read the variable by which transformers sets them."""
    tags: dict[str, str] = {}
    experiment = type("Experiment", (), {"experiment_id": "1"})
    mlflow = module(
        "mlflow",
        set_tracking_uri=lambda uri: None,
        set_experiment=lambda name: experiment,
        start_run=lambda **_: None,
        log_params=lambda params: None,
        set_tags=tags.update,
        end_run=lambda **_: None,
    )
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setenv("MLFLOW_TAGS", '{"arm": "aqn"}')
    assert set(tracking("p", "aqn-s1", ["file", "mlflow"], config={}).logger) == {"file", "mlflow"}
    assert tags == {"arm": "aqn"}


def test_another_verl_is_told_and_not_ended(
    hook: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], wording: SnapshotAssertion
) -> None:
    hook.install(tmp_path)
    said = capsys.readouterr().out
    assert "RLX641" in said
    assert settled(said, {str(tmp_path): "folder", tmp_path.name: "name"}) == wording
