"""Run somebody's noise code in a process of its own, with an environment of its own, for a limited time."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rlx.audit.checkout import NoiseHook
from rlx.audit.outcome import Outcome, parse_outcome
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
    """What stands around the process besides its own environment: a command in front of it, or nothing."""

    command: tuple[str, ...] = ()

    @property
    def closed(self) -> bool:
        """Whether it has no network, and sees no other process."""
        return bool(self.command)


@dataclass(frozen=True, slots=True)
class Order:
    """One engine's model, and the schedule that the noise code is asked for."""

    engine: str
    python: str
    sigma_start: float
    sigma_end: float
    stages: int
    steps: int
    time_limit: float


def find_fence() -> Fence:
    """Return namespaces of its own where this machine lets a user have them."""
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


def run_apart(hook: NoiseHook, order: Order, fence: Fence) -> Outcome:
    """Execute the noise code beside one engine's model.

    The process gets none of the caller's environment, no standard input, a scratch folder as home, and is ended with
    what it started after `order.time_limit` seconds. Raises RlxError where it leaves no answer.
    """
    with tempfile.TemporaryDirectory(prefix="rlx-audit-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        (scratch / "order.json").write_text(json.dumps(_order(hook, order, fence, scratch)), encoding="utf-8")
        ended, said = _run([*fence.command, *_command(order.python, scratch)], scratch, order.time_limit)
        return _answer(order, scratch / "answer.json", ended, said)


def _order(hook: NoiseHook, order: Order, fence: Fence, scratch: Path) -> dict[str, object]:
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


def _command(python: str, scratch: Path) -> list[str]:
    return [python, "-I", "-B", str(payload_folder() / "audit_noise.py"), str(scratch / "order.json")]


def _run(command: Sequence[str], scratch: Path, time_limit: float) -> tuple[int | None, str]:
    """Return the exit status, None if the time was over, and the last line of what it printed."""
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


def _answer(order: Order, path: Path, ended: int | None, said: str) -> Outcome:
    if ended is None:
        raise RlxError(
            f"{order.engine}: not finished after {order.time_limit:g} s", "a longer --time-limit, if that is expected"
        )
    if not path.is_file() or path.is_symlink():
        raise RlxError(f"{order.engine}: ended with {ended} and no answer", f"it printed last: {said}")
    if path.stat().st_size > _LARGEST_ANSWER:
        raise RlxError(f"{order.engine}: the answer is larger than rlx reads", "the code may have written it")
    return parse_outcome(order.engine, path.read_text(encoding="utf-8", errors="replace"))
