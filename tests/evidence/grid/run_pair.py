"""A copy of a recorded pair of run directories, whose files edits may change as objects."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.model.run_dir import COMPOSED_FILE
from tests.conftest import CASES
from tests.evidence.edits import GAP, Recorded
from tests.recorded import place_runs

Line = dict[str, Any]


class RunDirectory(Recorded):
    """A run directory as rlx leaves it: manifest, and of its attempt the log, the metrics, the records, the outputs."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.manifest: dict[str, Any] = json.loads((run_dir / "manifest.json").read_text(encoding="utf-8"))
        folder = run_dir / "attempts/1"
        self._expectations = folder / "expectations.json"
        self._expectations.write_text(json.dumps(self.plan["expectations"]), encoding="utf-8")
        super().__init__(folder)

    def write(self) -> None:
        super().write()
        self._expectations.unlink()
        self.plan["expectations"] = self.expectations
        (self.run_dir / "manifest.json").write_text(json.dumps(self.manifest), encoding="utf-8")

    @property
    def plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = self.manifest["plan"]
        return plan

    @property
    def noise(self) -> dict[str, Any]:
        """What the plan promises of noise."""
        noise: dict[str, Any] = self.expectations["noise"]
        return noise

    def compose(self, before: str, after: str) -> None:
        """Change the configuration that the engine composed."""
        file = self.run_dir / "attempts/1" / COMPOSED_FILE
        text = file.read_text(encoding="utf-8")
        assert before in text, before
        file.write_text(text.replace(before, after), encoding="utf-8")

    def lines(self, kind: str, phase: str = "", *steps: int) -> list[Line]:
        """The records of a kind; of a phase and of some steps, if any are named."""
        return [
            line
            for line in self.events
            if line["kind"] == kind and phase in ("", line["phase"]) and (not steps or line["step"] in steps)
        ]

    def gaps(self) -> dict[int, float]:
        """The gap between rollout and actor by step."""
        return {line["step"]: line["data"][GAP] for line in self.metrics if GAP in line["data"]}

    def value(self, key: str, step: int) -> float:
        value: float = next(line["data"][key] for line in self.metrics if line["step"] == step)
        return value

    def set_in_metrics(self, key: str, values: dict[int, float]) -> None:
        """Change a metric in the metrics file alone."""
        for line in self.metrics:
            if line["step"] in values:
                line["data"][key] = values[line["step"]]

    def set_in_log(self, key: str, values: dict[int, float | str]) -> None:
        """Change a metric, or add it, in the lines of the log alone."""
        lines = self.log.splitlines(keepends=True)
        for step, value in values.items():
            at = next(index for index, line in enumerate(lines) if f" step:{step} - " in line)
            known = re.compile(rf" - {re.escape(key)}:\S+")
            text = f" - {key}:{value}"
            new, count = known.subn(text, lines[at], count=1)
            lines[at] = new if count else lines[at].rstrip("\n") + text + "\n"
        self.log = "".join(lines)

    def set_in_both(self, key: str, values: dict[int, float]) -> None:
        self.set_in_metrics(key, values)
        self.set_in_log(key, dict(values))

    def forget_metrics_file(self) -> None:
        """Leave the log as the only source of metrics."""
        self.metrics = []

    def outputs(self, step: int) -> list[Line]:
        """The answers that were kept of a validation."""
        return [json.loads(line) for line in self._outputs(step).read_text(encoding="utf-8").splitlines()]

    def put_outputs(self, step: int, answers: list[Line]) -> None:
        self._outputs(step).write_text("".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8")

    def _outputs(self, step: int) -> Path:
        return self.folder / "validation" / f"{step}.jsonl"


@dataclass(frozen=True, slots=True)
class RunPair:
    """Both arms of one launch."""

    baseline: RunDirectory
    aqn: RunDirectory

    def write(self) -> None:
        self.baseline.write()
        self.aqn.write()


def place_pair(base: str) -> RunPair:
    """Copy a recorded pair below $RLX_ROOT, and open it for edits."""
    runs = {("aqn" if "-aqn-" in run.name else "baseline"): run for run in place_runs(CASES / "pairs" / base)}
    return RunPair(RunDirectory(runs["baseline"]), RunDirectory(runs["aqn"]))
