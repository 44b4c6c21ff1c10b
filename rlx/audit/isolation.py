"""Run the noise code of a checkout in a separate process with its own environment and a time limit.

The answer is checked, since the process ran code that is not trusted.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rlx.audit.checkout import NoiseHook
from rlx.errors import RlxError
from rlx.resources import payload_folder

_OWN_NAMESPACES = ("--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "CUDA_VISIBLE_DEVICES": "",
    "GLOO_SOCKET_IFNAME": "lo",
    "HF_HUB_OFFLINE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_NO_USAGE_STATS": "1",
}
_LARGEST_ANSWER = 1 << 20
_TAIL, _LAST_WORDS = 8192, 300


@dataclass(frozen=True, slots=True)
class Fence:
    """A command in front of the process that isolates it further, or none."""

    command: tuple[str, ...] = ()

    @property
    def closed(self) -> bool:
        """Whether the process has no network, and sees no other process."""
        return bool(self.command)


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """One engine's model, and the schedule to request from the noise code."""

    engine: str
    python: str
    sigma_start: float
    sigma_end: float
    stages: int
    steps: int
    time_limit: float


def find_fence() -> Fence:
    """Return separate namespaces where this machine allows them to users."""
    program = shutil.which("unshare")
    if program is None:
        return Fence()
    command = (program, *_OWN_NAMESPACES)
    tried = subprocess.run([*command, "true"], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return Fence(command) if tried.returncode == 0 else Fence()


def packages_of(python: str) -> list[Path]:
    """Return the folders that this interpreter imports packages from. Raises RlxError if it does not start."""
    program = "import json, sys; print(json.dumps([path for path in sys.path if path.endswith('-packages')]))"
    try:
        asked = subprocess.run(
            [python, "-I", "-c", program], capture_output=True, text=True, check=True, timeout=60, encoding="utf-8"
        )
        return [Path(path) for path in json.loads(asked.stdout)]
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise RlxError(f"{python}: no Python that starts", "name an interpreter with --python") from error


def run_apart(hook: NoiseHook, order: AuditRequest, fence: Fence) -> AuditOutcome:
    """Execute the noise code on one engine's model.

    The process gets none of the caller's environment, no standard input, a scratch folder as home, and is ended with
    what it started after `order.time_limit` seconds. Raises RlxError where it leaves no answer.
    """
    with tempfile.TemporaryDirectory(prefix="rlx-audit-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        (scratch / "order.json").write_text(json.dumps(_order(hook, order, fence, scratch)), encoding="utf-8")
        program = [order.python, "-I", "-B", str(payload_folder() / "audit_noise.py"), str(scratch / "order.json")]
        ended, said = _run([*fence.command, *program], scratch, order.time_limit)
        return _answer(order, scratch / "answer.json", ended, said)


def _order(hook: NoiseHook, order: AuditRequest, fence: Fence, scratch: Path) -> dict[str, object]:
    return {
        "engine": order.engine,
        "checkout": str(hook.checkout),
        "module": hook.module,
        "injector": hook.injector,
        "scheduler": hook.scheduler,
        "trend": hook.trend,
        "names": hook.names,
        "constant_calls": sorted({call.constant for call in hook.calls if call.constant}),
        "sigma_start": order.sigma_start,
        "sigma_end": order.sigma_end,
        "stages": order.stages,
        "steps": order.steps,
        "own_network": fence.closed,
        "scratch": str(scratch),
        "answer": str(scratch / "answer.json"),
    }


def _run(command: Sequence[str], scratch: Path, time_limit: float) -> tuple[int | None, str]:
    """Return the exit status, None if it timed out, and the last line of its output."""
    environment = _ENVIRONMENT | {"HOME": str(scratch), "TMPDIR": str(scratch)}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, cwd=scratch, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        try:
            ended = process.wait(time_limit)
        except subprocess.TimeoutExpired:
            ended = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return ended, _last_words(said)


def _last_words(said: IO[bytes]) -> str:
    said.seek(max(0, os.fstat(said.fileno()).st_size - _TAIL))
    lines = said.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:_LAST_WORDS] if lines else "it printed nothing"


def _answer(order: AuditRequest, path: Path, ended: int | None, said: str) -> AuditOutcome:
    if ended is None:
        raise RlxError(
            f"{order.engine}: not finished after {order.time_limit:g} s", "a longer --time-limit, if that is expected"
        )
    if not path.is_file() or path.is_symlink():
        raise RlxError(f"{order.engine}: ended with {ended} and no answer", f"it printed last: {said}")
    if path.stat().st_size > _LARGEST_ANSWER:
        raise RlxError(f"{order.engine}: the answer is larger than rlx reads", "the code may have written it")
    return parse_outcome(order.engine, path.read_text(encoding="utf-8", errors="replace"))


_MOST = 10_000


@dataclass(frozen=True, slots=True)
class HookCall:
    """One call on clean weights: modules, elements and classes that changed, by how much, in the unit of the weights.

    `std`: standard deviation of the changed elements' differences; `moved`: the largest change of a log probability
    among those asked, -1 where the answers were not finite.
    """

    step: int
    sigma: float
    layers: int
    elements: int
    std: float
    moved: float
    classes: dict[str, int]


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """The results on one engine's model. `sigmas`: by step, from 0 to the last. `norms`: norm layers by class.

    `constant_calls`: (step, total, sigma) for calls of the checkout in which both are literals, with a list of one
    sigma. `told`: a call whose class names were made to mean the class that is there, if none had matched.
    """

    engine: str
    version: str
    torch: str
    model: str
    norms: dict[str, int]
    norm_elements: int
    sigmas: list[float]
    calls: list[HookCall]
    constant_calls: list[tuple[int, int, float]]
    told: HookCall | None

    @property
    def noisy(self) -> list[HookCall]:
        return [call for call in self.calls if call.sigma]

    @property
    def norm_layers(self) -> int:
        return sum(self.norms.values())

    @property
    def reached(self) -> int:
        """The most layers that any call with a sigma changed."""
        return max((call.layers for call in self.noisy), default=0)


def parse_outcome(engine: str, text: str) -> AuditOutcome:
    """Parse the answer of the process. Raises RlxError where it is not what rlx's program writes."""
    try:
        said = json.loads(text)
        return AuditOutcome(
            engine=engine,
            version=_checked_text(said["version"]),
            torch=_checked_text(said["torch"]),
            model=_checked_text(said["model"]),
            norms=_counts(said["norms"]),
            norm_elements=int(said["norm_elements"]),
            sigmas=[_number(each) for each in said["sigmas"][:_MOST]],
            calls=[_call(each) for each in said["calls"][:_MOST]],
            constant_calls=[
                (int(each["step"]), int(each["total"]), _number(each["sigma"])) for each in said["constant_calls"]
            ],
            told=_call(said["told"]) if said["told"] else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RlxError(
            f"{engine}: the process left an answer that rlx cannot read", "the code may have written it"
        ) from error


def _call(said: dict[str, Any]) -> HookCall:
    return HookCall(
        step=int(said["step"]),
        sigma=_number(said["sigma"]),
        layers=int(said["layers"]),
        elements=int(said["elements"]),
        std=_number(said["std"]),
        moved=_number(said["moved"]),
        classes=_counts(said["classes"]),
    )


def _counts(said: dict[str, Any]) -> dict[str, int]:
    return {_checked_text(name): int(number) for name, number in list(said.items())[:_MOST]}


def _number(said: Any) -> float:
    number = float(said)
    if not math.isfinite(number):
        raise ValueError(said)
    return number


def _checked_text(said: Any) -> str:
    if not isinstance(said, str):
        raise TypeError(said)
    return said[:200]
