"""One run's own Ray, on one node or several: starts this node's part and holds it until it is told to end.

    python rlx_ray.py SETTINGS.json ADDRESS_FILE

Travels with the run. On the head (RLX_NODE 0) the file appears with Ray's address in it once all RLX_NODES nodes and
what SETTINGS wants are there; without them in time it says what is missing and exits with 1. MindSpeed-RL asks for
placement groups without a deadline, so a Ray with too little would keep it waiting for ever. All files lie in
RAY_TMPDIR; all ports are free ones, but for that in RLX_HEAD, where the other nodes find the head.

SETTINGS: `offers` is what this node has, by Ray's names (nothing: what Ray detects), `object_store_memory` in bytes;
`each_node` and `all_nodes` are what must be there, within `ready_within_s`; `waiting` and `fix` are said otherwise.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import rlx_ray_head
import rlx_ray_network
import rlx_ray_worker

# Ray's own (5 s, 3 s, 10 s, 5 times; read from `ray._raylet.Config` of 2.60, in its source ray_config_def.h) notice a
# cut cable after (3 + 10) · 5 = 65 s; with these it is (2 + 4) · 5 = 30 s.
HEALTH = {"initial_delay_ms": 5000, "period_ms": 2000, "timeout_ms": 4000, "failure_threshold": 5}


def main(settings: dict[str, Any], address_file: Path) -> None:
    end_when_told()
    os.environ.pop("RAY_ADDRESS", None)
    # Ray keeps an idle process per CPU for what its first driver would run. That is this program, which runs nothing.
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    if int(os.environ.get("RLX_NODES") or 1) == 1:
        rlx_ray_head.hold_one(settings, address_file)
    for name, value in HEALTH.items():
        os.environ.setdefault(f"RAY_health_check_{name}", str(value))
    head = rlx_ray_network.Address.of(os.environ["RLX_HEAD"])
    if int(os.environ["RLX_NODE"]) == 0:
        rlx_ray_head.hold(settings, head, address_file)
    rlx_ray_worker.hold(settings, head)


def end_when_told() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
