"""Breaks the noise of two rollouts as a fork with two mistakes would.

Replica 1 never gets the hook: its weights stay clean, and nothing in it writes a record. Replica 0 draws its noise
without regard to the step, so that every step gets the same.

A run loads this in each of its processes by verl's own `actor_rollout_ref.model.external_lib`.
"""

from __future__ import annotations

from typing import Any

import ray
import rlx_aqn

_seed_of = rlx_aqn.stable_seed
_from_run_directory = rlx_aqn.Injector.from_run_directory


def _seed_without_step(seed: int, replica: int, step: int, name: str) -> int:
    return _seed_of(seed, replica, 0, name)


def _for_replica_0(*arguments: Any, **options: Any) -> Any:
    is_replica_1 = ray.get_runtime_context().get_actor_name() == "rlx_cpu_server_1"
    return None if is_replica_1 else _from_run_directory(*arguments, **options)


rlx_aqn.stable_seed = _seed_without_step
rlx_aqn.Injector.from_run_directory = staticmethod(_for_replica_0)
