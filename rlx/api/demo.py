"""Load demo runs that show what verdicts are for: a recorded pair, and edited copies that are no longer valid.

The pair was trained by stock verl on a CPU and travels with rlx. Each edit is what one mishap leaves in a run
directory. Nothing is trained here, and nothing of the user's own runs is touched.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.api.runs import unheard
from rlx.errors import RlxError, UsageError
from rlx.model.run_dir import (
    ATTEMPTS_DIR,
    EVENTS_DIR,
    EXIT_FILE,
    LATEST_LINK,
    LOG_FILE,
    MANIFEST_FILE,
    METRICS_FILE,
    STARTED_DIR,
    STATE_DIR,
    VALIDATION_DIR,
)

if TYPE_CHECKING:
    from rlx.api.judged_comparison import Compared
    from rlx.api.runs import Tell
    from rlx.runs.status.snapshots import Snapshot

CONTROL, TREATMENT = "baseline", "aqn"
_CUT_AT = 12
_STEP = re.compile(r'step"?: ?(\d+)\b')
_TIME = re.compile(r'((?:timing_s|timing_per_token_ms|perf)/[\w/]+)"?: ?[-+.\de]+')
_ATTEMPT = f"{ATTEMPTS_DIR}/1"
_PLACES = {"RLX_HOME": "home", "RLX_ROOT": "root", "RLX_LEASES": "leases"}


@dataclass(frozen=True, slots=True)
class DemoPair:
    """One pair of runs. `told`: the claim of its owner; `happened`: the edit of the recorded pair."""

    name: str
    told: str
    happened: str
    edit: Callable[[Path, Path], None]


@dataclass(frozen=True, slots=True)
class DemoResult:
    """A demo pair with its rows, its comparison and its report."""

    scene: DemoPair
    rows: Sequence[Snapshot]
    compared: Compared
    page: Path


def _nothing(control: Path, treatment: Path) -> None:
    """Leave the pair as it was recorded."""


def _take_the_noise_away(control: Path, treatment: Path) -> None:
    """Give the noisy arm the values and answers of the control, as in a run without payload."""
    attempt, other = treatment / _ATTEMPT, control / _ATTEMPT
    for name in (LOG_FILE, METRICS_FILE):
        own_times = {match[1]: _times(line) for line in _lines(attempt / name) if (match := _STEP.search(line))}
        lines = [
            _TIME.sub(lambda found, own=own_times[match[1]]: own.get(found[1], found[0]), line)  # type: ignore[misc]
            if (match := _STEP.search(line))
            else line
            for line in _lines(other / name)
        ]
        (attempt / name).write_text("".join(lines), encoding="utf-8")
    for path in (attempt / VALIDATION_DIR).iterdir():
        ids = [json.loads(line)["uid"] for line in _lines(path)]
        rows = map(json.loads, _lines(other / VALIDATION_DIR / path.name))
        answers = [json.dumps({**row, "uid": id}) for row, id in zip(rows, ids, strict=True)]
        path.write_text("\n".join([*answers, ""]), encoding="utf-8")
    for path in (attempt / EVENTS_DIR).iterdir():
        path.unlink()


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def _times(line: str) -> dict[str, str]:
    """Map each metric of a line that says how long something took to its name and value as they are written."""
    return {match[1]: match[0] for match in _TIME.finditer(line)}


def _cut_short(control: Path, treatment: Path) -> None:
    """End the noisy arm in the middle, as when its host ran out of memory."""
    attempt = treatment / _ATTEMPT
    _keep_until(attempt / LOG_FILE, lambda line: f"step:{_CUT_AT + 1} " in line)
    _keep_until(attempt / METRICS_FILE, lambda line: json.loads(line)["step"] > _CUT_AT)
    for path in (attempt / EVENTS_DIR).iterdir():
        _keep_until(path, lambda line: json.loads(line).get("step", 0) > _CUT_AT + 1)
    for path in (attempt / VALIDATION_DIR).iterdir():
        if int(path.stem) > _CUT_AT:
            path.unlink()
    exit_record = attempt / STATE_DIR / EXIT_FILE
    _, *rest = exit_record.read_text(encoding="utf-8").split(" ")
    exit_record.write_text(" ".join(("137", *rest)), encoding="utf-8")


def _keep_until(path: Path, is_over: Callable[[str], bool]) -> None:
    lines = _lines(path)
    end = next((number for number, line in enumerate(lines) if is_over(line)), len(lines))
    path.write_text("".join(lines[:end]), encoding="utf-8")


def _evaluate_otherwise(control: Path, treatment: Path) -> None:
    """Validate the noisy arm by sampling, and the control greedily."""
    with _manifest(treatment) as manifest:
        manifest["plan"]["recipe"]["eval"]["temperature"] = 1.0


SCENES = (
    DemoPair("honest", "AQN changes nothing here", "nothing: both arms as they were recorded", _nothing),
    DemoPair(
        "no-noise",
        "AQN costs nothing: 0.97 in both arms",
        "in the arm named aqn no noise was ever added: its hook was not loaded",
        _take_the_noise_away,
    ),
    DemoPair(
        "cut-short",
        "AQN hurts: 0.67 against 0.97",
        f"the arm named aqn ended at step {_CUT_AT} of 20, out of memory",
        _cut_short,
    ),
    DemoPair(
        "other-evaluation",
        "AQN is a point behind",
        "aqn was validated by sampling at temperature 1, the control greedily",
        _evaluate_otherwise,
    ),
)


def demo(folder: Path, tell: Tell = unheard) -> Iterator[DemoResult]:
    """Load the demo pairs into `folder`, and show each as `status`, `compare` and `report` do.

    Raises UsageError for a folder that holds anything else than an earlier demo, RlxError where it cannot be written.
    """
    from rlx.api.comparing import compare
    from rlx.api.reporting import report
    from rlx.api.status import status

    folder = folder.absolute()
    lay_out(folder)
    with _home(folder):
        for scene in SCENES:
            ids = [_run_id(scene, recorded) for recorded in _recorded()]
            arms = sorted(ids, key=lambda run_id: f"-{CONTROL}-" not in run_id)
            compared = compare(*arms, tell=tell)
            yield DemoResult(scene, status(arms), compared, report(folder / f"{scene.name}.html", *arms))


def variables(folder: Path) -> dict[str, str]:
    """Return the environment variables that make rlx use these runs instead of the user's own."""
    return {name: str(folder.absolute() / place) for name, place in _PLACES.items()}


def lay_out(folder: Path) -> None:
    """Write the run directories of all scenes, in place of those of an earlier demo. Raises UsageError, RlxError."""
    try:
        _lay_out(folder)
    except OSError as error:
        # Of several files that could not be copied, it names no reason.
        reason = error.strerror or "is the disk full?"
        raise RlxError(f"{folder}: cannot be written: {reason}", "rlx demo --to ANOTHER") from None


def _lay_out(folder: Path) -> None:
    mark = folder / "made-by-rlx-demo"
    if folder.exists() and not mark.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: is there already, and no demo of rlx", "rlx demo --to ANOTHER")
    for place in _PLACES.values():
        shutil.rmtree(folder / place, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    mark.touch()
    for scene in SCENES:
        placed = {_arm(recorded): _place(scene, recorded, folder) for recorded in _recorded()}
        scene.edit(placed[CONTROL], placed[TREATMENT])


def _recorded() -> list[Path]:
    from rlx.resources import recorded_pair

    return sorted(manifest.parent for manifest in recorded_pair().glob(f"*/{MANIFEST_FILE}"))


def _arm(recorded: Path) -> str:
    return TREATMENT if f"-{TREATMENT}-" in recorded.name else CONTROL


def _run_id(scene: DemoPair, recorded: Path) -> str:
    return f"{scene.name}{recorded.name.removeprefix('tiny-cpu')}"


def _place(scene: DemoPair, recorded: Path, folder: Path) -> Path:
    """Copy a run as rlx leaves runs that have ended, under the name of the scene."""
    run = folder / "root/runs" / _run_id(scene, recorded)
    shutil.copytree(recorded, run)
    (run / _ATTEMPT / STATE_DIR / STARTED_DIR).touch()
    (run / LATEST_LINK).symlink_to(_ATTEMPT)
    log = run / _ATTEMPT / LOG_FILE
    log.write_text(log.read_text(encoding="utf-8").replace(recorded.name, run.name), encoding="utf-8")
    with _manifest(run) as manifest:
        manifest |= {"run_id": run.name, "launch_id": f"demo-{scene.name}"}
        plan = manifest["plan"]
        plan["name"] = plan["recipe"]["name"] = scene.name
        plan["site"]["root"] = str(folder / "root")
    return run


@contextmanager
def _manifest(run: Path) -> Iterator[dict[str, Any]]:
    """Yield the manifest for editing; write it at the end of the block."""
    path = run / MANIFEST_FILE
    manifest = json.loads(path.read_text(encoding="utf-8"))
    yield manifest
    path.write_text(json.dumps(manifest), encoding="utf-8")


@contextmanager
def _home(folder: Path) -> Iterator[None]:
    """Use the demo's own home, so that its runs are never listed among the user's runs."""
    wanted = variables(folder)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ |= wanted
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ |= {} if value is None else {name: value}
