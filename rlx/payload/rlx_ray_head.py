"""The head's part of a run's Ray: starts it, waits for nodes and resources, and watches the nodes."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from rlx_ray_network import Address, name_interface, refuse_what_cannot_be_bound

POLL_S = 0.5
WATCH_S = 2.0
TELL_EVERY_S = 60.0
SILENT_S = 60.0
NODE_NAME = "rlx-node"
NODES_WITHIN_S = 1800.0


def hold_one(settings: dict[str, Any], address_file: Path) -> NoReturn:
    """Run a Ray of one node."""
    import ray

    deadline = time.monotonic() + settings["ready_within_s"]
    # HCCL and workers of other machines can reach this address, and not 127.0.0.1.
    start(settings, deadline, ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
    await_resources(settings, deadline)
    write(address_file, ray.get_runtime_context().gcs_address)
    while True:
        signal.pause()


def hold(settings: dict[str, Any], head: Address, address_file: Path) -> NoReturn:
    """Run the first of several nodes. Ends with 1 when a node is lost."""
    import ray

    refuse_what_cannot_be_bound(head)
    name_interface(head.number)
    os.environ["RAY_GCS_SERVER_PORT"] = str(head.port)
    begin = time.monotonic()
    start(settings, begin + settings["ready_within_s"], head.number)
    print(f"rlx: node 0 of this run's Ray is up at {head}", flush=True)
    await_nodes(int(os.environ["RLX_NODES"]), begin + nodes_within_s())
    await_resources(settings, time.monotonic() + settings["ready_within_s"])
    write(address_file, ray.get_runtime_context().gcs_address)
    watch()


def watch() -> NoReturn:
    """Until a node is lost. That Ray is slow to answer is not the same."""
    answered = time.monotonic()
    while True:
        time.sleep(WATCH_S)
        try:
            lost = alive_and_lost()[1]
        except Exception as problem:  # noqa: BLE001 - Ray has many for one thing
            if time.monotonic() - answered > SILENT_S:
                sys.exit(f"rlx: this run's Ray does not answer any more: {problem}")
            continue
        answered = time.monotonic()
        end_if_lost(lost)


def nodes_within_s() -> float:
    """How long nodes wait for each other: they may be queued on their hosts. Exits with a message for no number."""
    text = os.environ.get("NODES_WITHIN_S") or NODES_WITHIN_S
    try:
        return float(text)
    except ValueError:
        sys.exit(f"rlx: NODES_WITHIN_S is {text!r}, and not a number of seconds")


def start(settings: dict[str, Any], deadline: float, address: str) -> None:
    """Ray gives its own processes 30 s and no more, which is little on a busy machine: then once again."""
    import ray

    offers = dict(settings["offers"])
    cpus, gpus = offers.pop("CPU", None), offers.pop("GPU", None)
    # Its default action ends this process wherever it hangs.
    signal.alarm(2 * settings["ready_within_s"])
    while True:
        try:
            ray.init(
                "local",
                num_cpus=cpus,
                num_gpus=gpus,
                resources=offers or None,
                object_store_memory=settings["object_store_memory"],
                include_dashboard=False,
                log_to_driver=False,
                _temp_dir=os.environ["RAY_TMPDIR"],
                _node_ip_address=address,
                _node_name=f"{NODE_NAME}0",
            )
            break
        except Exception as problem:  # noqa: BLE001 - Ray raises just that
            if time.monotonic() > deadline:
                sys.exit(f"rlx: Ray cannot be started: {problem}")
            print(f"rlx: Ray did not start, once again: {problem}", file=sys.stderr)
            ray.shutdown()
            end_children()
    signal.alarm(0)
    # Ray puts its own handler in place.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def end_children() -> None:
    """End what a start that failed has started: Ray forgets it, and the next one would meet it at the head's port."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name of a program, in brackets, may hold anything; behind it stand state and parent.
            parent = (entry / "stat").read_text(errors="replace", encoding="utf-8").rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                os.kill(int(entry.name), signal.SIGKILL)
                os.waitpid(int(entry.name), 0)


def await_nodes(count: int, deadline: float) -> None:
    """Wait for all nodes. Exits with a message if one is missing by then, or is lost before the last one joined."""
    told = time.monotonic()
    while True:
        alive, lost = alive_and_lost()
        end_if_lost(lost)
        missing = [str(number) for number in range(count) if number not in alive]
        if not missing:
            print(f"rlx: all {count} nodes are there: {', '.join(alive.values())}", flush=True)
            return
        waits_for = f"node{'s' * (len(missing) > 1)} {', '.join(missing)} of {count}"
        if time.monotonic() > deadline:
            sys.exit(
                f"rlx: {waits_for} did not come within {nodes_within_s():g} s\n"
                "  fix: the log of that node's own run directory says more; more time: env: {NODES_WITHIN_S: SECONDS}"
            )
        if time.monotonic() - told > TELL_EVERY_S:
            told = time.monotonic()
            print(f"rlx: waiting for {waits_for}, for another {deadline - told:.0f} s at most", flush=True)
        time.sleep(POLL_S)


def alive_and_lost() -> tuple[dict[int, str], dict[int, str]]:
    """Nodes by their number, each as people find it: its number, host name and address; the lost with the reason."""
    import ray

    alive, lost = {}, {}
    for node in ray.nodes():  # type: ignore[no-untyped-call]
        number = int(node["NodeName"].removeprefix(NODE_NAME))
        named = f"node {number} ({node['NodeManagerHostname']}, {node['NodeManagerAddress']})"
        if node["Alive"]:
            alive[number] = named
        else:
            lost[number] = f"{named}: {node.get('DeathReasonMessage') or 'no reason is known'}"
    return alive, {number: text for number, text in lost.items() if number not in alive}


def end_if_lost(lost: dict[int, str]) -> None:
    if lost:
        sys.exit("\n".join(f"rlx: this run's Ray lost {text}" for text in lost.values()))


def await_resources(settings: dict[str, Any], deadline: float) -> None:
    """Wait for the resources. Exits with a message if they are missing by then."""
    while missing := list(missing_resources(settings)):
        if time.monotonic() > deadline:
            sys.exit(f"rlx: Ray has {' and '.join(missing)} {settings['waiting']}\n  fix: {settings['fix']}")
        time.sleep(POLL_S)


def missing_resources(settings: dict[str, Any]) -> list[str]:
    """List what each node lacks: a placement group is on one node, so another node's surplus does not help."""
    import ray

    found = ray.cluster_resources()  # type: ignore[no-untyped-call]
    missing = lacks(found, settings["all_nodes"])
    for node in ray.nodes() if not missing else ():  # type: ignore[no-untyped-call]
        lacking = lacks(node["Resources"], settings["each_node"]) if node["Alive"] else []
        missing += [f"{text} on {node['NodeManagerHostname']} ({node['NodeManagerAddress']})" for text in lacking]
    return missing


def lacks(found: dict[str, float], wanted: dict[str, int]) -> list[str]:
    return [
        f"{found.get(name, 0):g} of {count} {name}s" for name, count in wanted.items() if found.get(name, 0) < count
    ]


def write(path: Path, text: str) -> None:
    """Rename the file into place, so that it is always complete."""
    scratch = path.with_name(f".{path.name}")
    scratch.write_text(text, encoding="utf-8")
    scratch.rename(path)
