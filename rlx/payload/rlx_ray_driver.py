"""Runs a trainer on the head of a Ray of several nodes, and what it starts first runs there, too.

    python rlx_ray_driver.py (-m MODULE | FILE.py) ARGUMENT...

Travels with the run. verl's driver starts one actor, the TaskRunner: it reads the data and writes metrics and
validations. Ray puts an actor without demands on any node (ray 2.60, gcs_actor_scheduler.cc, SelectForwardingNode),
and then they lie in another node's run directory.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

from rlx_ray_head import NODE_NAME


def main(arguments: list[str]) -> None:
    keep_actors_on_head()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def keep_actors_on_head() -> None:
    """Those of this process that ask for no other place."""
    from ray.actor import ActorClass

    placed_anywhere = ActorClass._remote

    def placed(self: Any, *args: Any, **options: Any) -> Any:
        if options.get("scheduling_strategy") is None:
            options["scheduling_strategy"] = on_head()
        return placed_anywhere(self, *args, **options)

    ActorClass._remote = placed


def on_head() -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    (head,) = (node["NodeID"] for node in nodes if node["NodeName"] == f"{NODE_NAME}0")
    return NodeAffinitySchedulingStrategy(head, soft=False)


if __name__ == "__main__":
    main(sys.argv[1:])
