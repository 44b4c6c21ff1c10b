"""One run's own Ray for MindSpeed-RL: starts it, waits for its resources, and holds it until it is told to end.

    python mindspeed_rl_ray.py NPUS CPUS SECONDS ADDRESS_FILE

Travels with the run. The file appears with the address in it once NPUS and CPUS are there; without them in time it
says what is missing and exits with 1. All ports are free ones, and all files lie in RAY_TMPDIR. MindSpeed-RL asks for
placement groups without a deadline, so a Ray with too little would keep it waiting for ever.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

POLL_S = 0.5


def main(npus: int, cpus: int, seconds: float, address_file: Path) -> None:
    deadline = time.monotonic() + seconds
    import ray

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    os.environ.pop("RAY_ADDRESS", None)
    start(npus, deadline)
    # Ray puts its own handler in place.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    await_resources({"NPU": npus, "CPU": cpus}, deadline)
    write(address_file, ray.get_runtime_context().gcs_address)
    while True:
        signal.pause()


def start(npus: int, deadline: float) -> None:
    """Ray gives its own processes 30 s and no more, which is little on a busy machine: then once again."""
    import ray

    while True:
        try:
            ray.init(
                "local",
                resources={"NPU": npus},
                include_dashboard=False,
                log_to_driver=False,
                _temp_dir=os.environ["RAY_TMPDIR"],
                # HCCL and workers of other machines can reach this address, and not 127.0.0.1.
                _node_ip_address=ray.util.get_node_ip_address(),  # type: ignore[no-untyped-call]
            )
            return
        except Exception as problem:  # noqa: BLE001 - Ray raises just that
            if time.monotonic() > deadline:
                sys.exit(f"rlx: Ray cannot be started: {problem}")
            print(f"rlx: Ray did not start, once again: {problem}", file=sys.stderr)
            ray.shutdown()


def await_resources(wanted: dict[str, int], deadline: float) -> None:
    """Exits with a message if they are not there by then."""
    import ray

    while True:
        found = ray.cluster_resources()  # type: ignore[no-untyped-call]
        missing = [
            f"{found.get(name, 0):g} of {count} {name}s" for name, count in wanted.items() if found.get(name, 0) < count
        ]
        if not missing:
            return
        if time.monotonic() > deadline:
            sys.exit(
                f"rlx: Ray has {' and '.join(missing)} that MindSpeed-RL waits for without a word\n"
                "  fix: a machine or container with more; fewer CPUs for each NPU by "
                "overrides: {rl_config.num_cpus_for_placement_group: N}"
            )
        time.sleep(POLL_S)


def write(path: Path, text: str) -> None:
    """Renamed into place: who finds the file finds all of it."""
    scratch = path.with_name(f".{path.name}")
    scratch.write_text(text, encoding="utf-8")
    scratch.rename(path)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
