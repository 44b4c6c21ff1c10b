"""A further node's part of a run's Ray: waits for the head, joins it, and goes when it is gone."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from rlx_ray_head import NODE_NAME, POLL_S, TELL_EVERY_S, WATCH_S, nodes_within_s
from rlx_ray_network import Address, name_interface, psutil_of_ray

REFUSALS = 3
UNREACHABLE_S = 60.0
ENDING_S = 5.0
JOINED = "Ray runtime started"
WRONG_TOKEN = ("InvalidAuthToken", "AuthenticationError", "Unauthenticated")
_PR_SET_PDEATHSIG = 1


def hold(settings: dict[str, Any], head: Address) -> NoReturn:
    """Join the head's Ray and stay until that ends, which is an exit with 0; anything else is a message and 1."""
    deadline = time.monotonic() + nodes_within_s()
    await_head(head, deadline)
    name_interface(head.own_address())
    while True:
        with ray_node(settings, head) as (node, log):
            if joins(node, log, head):
                print(f"rlx: node {os.environ['RLX_NODE']} has joined the Ray at {head}", flush=True)
                stay(node, log, head)
            if isinstance(head.try_to_connect(), ConnectionRefusedError):
                sys.exit(f"rlx: the Ray at {head} has ended before this node had joined it")
            if time.monotonic() > deadline:
                sys.exit(f"rlx: this node's Ray cannot join that at {head}: {last_words(log)}")
            print(f"rlx: this node's Ray did not join, once again: {last_words(log)}", file=sys.stderr)


def await_head(head: Address, deadline: float) -> None:
    told = time.monotonic()
    while problem := head.try_to_connect():
        if time.monotonic() > deadline:
            sys.exit(
                f"rlx: the head did not come within {nodes_within_s():g} s: {head}: {problem}\n"
                "  fix: look at the log of the head's run directory; is the port open between the hosts?"
            )
        if time.monotonic() - told > TELL_EVERY_S:
            told = time.monotonic()
            print(f"rlx: waiting for the head at {head}, for another {deadline - told:.0f} s at most", flush=True)
        time.sleep(POLL_S)


@contextmanager
def ray_node(settings: dict[str, Any], head: Address) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Ray's own processes for this node, and where it writes what it has to say. With the context they go."""
    log = Path(os.environ["RAY_TMPDIR"], "ray_start.log")
    with log.open("wb") as output:
        node = subprocess.Popen(
            command(settings, head), stdout=output, stderr=subprocess.STDOUT, preexec_fn=end_with_parent
        )
    try:
        yield node, log
    finally:
        end(node)


def end(node: subprocess.Popen[bytes]) -> None:
    """End the raylet: one that cannot reach the head tries for long, and its agents end only some time after it."""
    told = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    psutil = psutil_of_ray()
    try:
        children = psutil.Process(node.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        children = []
    node.terminate()
    try:
        node.wait(ENDING_S)
    except subprocess.TimeoutExpired:
        node.kill()
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    signal.signal(signal.SIGTERM, told)


def command(settings: dict[str, Any], head: Address) -> list[str]:
    offers = dict(settings["offers"])
    wanted = {
        "address": f"[{head.number}]:{head.port}" if ":" in head.number else f"{head.number}:{head.port}",
        "node-ip-address": head.own_address(),
        "node-name": NODE_NAME + os.environ["RLX_NODE"],
        "temp-dir": os.environ["RAY_TMPDIR"],
        "num-cpus": offers.pop("CPU", None),
        "num-gpus": offers.pop("GPU", None),
        "resources": json.dumps(offers) if offers else None,
        "object-store-memory": settings["object_store_memory"],
        # Else 10002 to 19999, where HCCL's ports lie.
        "min-worker-port": 0,
        "max-worker-port": 0,
    }
    options = [f"--{name}={value}" for name, value in wanted.items() if value is not None]
    return [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *options]


def end_with_parent() -> None:
    """Have the kernel send TERM to Ray's node, which ends its processes, if this process is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def joins(node: subprocess.Popen[bytes], log: Path, head: Address) -> bool:
    while node.poll() is None:
        text = log.read_text(encoding="utf-8", errors="replace")
        if JOINED in text:
            return True
        if any(word in text for word in WRONG_TOKEN):
            sys.exit(f"rlx: the Ray at {head} refuses this node's token: it is that of another run, or no run's of rlx")
        time.sleep(POLL_S)
    return False


def stay(node: subprocess.Popen[bytes], log: Path, head: Address) -> NoReturn:
    while node.poll() is None:
        end_if_gone(head)
        time.sleep(WATCH_S)
    # The head's end may be what ended it.
    end_if_gone(head)
    sys.exit(f"rlx: this node's Ray ended with {node.returncode}: {last_words(log)}")


def end_if_gone(head: Address) -> None:
    """Tell whether the head is gone: it refuses connections. One that cannot be reached may only have a bad network."""
    since, refusals = time.monotonic(), 0
    while problem := head.try_to_connect():
        refusals = refusals + 1 if isinstance(problem, ConnectionRefusedError) else 0
        if refusals == REFUSALS:
            print(f"rlx: the Ray at {head} has ended, and with it this node", flush=True)
            sys.exit(0)
        if time.monotonic() - since > UNREACHABLE_S:
            sys.exit(f"rlx: the head at {head} could not be reached for {UNREACHABLE_S:g} s: {problem}")
        time.sleep(WATCH_S)


def last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return " | ".join(line.strip() for line in lines[-3:]) or "without a word"
