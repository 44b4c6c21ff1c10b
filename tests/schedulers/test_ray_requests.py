"""What a run asks of a Ray cluster, what cannot be its job, and how its queue is read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.errors import RlxError, UsageError
from rlx.hosts.node_plans import as_nodes
from rlx.model import Image, LaunchPlan, Place, Site
from rlx.payload.rlx_ray_job import configuration, own
from rlx.recipe import load_recipe
from rlx.runs import supervisor
from rlx.schedulers.protocol import Resource, gives_ray
from rlx.schedulers.ray.capacity import parse_jobs
from rlx.schedulers.ray.request import check, options
from rlx.schedulers.ray.settings import Ray, batch_of
from tests.conftest import REPOSITORY
from tests.runs.toys import toy_plan

URL = "http://127.0.0.1:8265"
SITE = Site(Place("cluster", "me@head"), root="/shared/rlx", batch=batch_of(Ray(URL)))


def plan_of(name: str, *changes: str) -> LaunchPlan:
    from rlx.backends.protocol import load_backend

    resolved = load_recipe(REPOSITORY / "recipes" / name, changes).resolve("baseline", 1)
    return load_backend(resolved.recipe.backend.kind).plan(resolved, SITE)


def script(**changed: Any) -> LaunchPlan:
    return replace(toy_plan("true"), **{"site": SITE, "backend": "verl", **changed})


def launch_script(plan: LaunchPlan) -> str:
    return next(file.content for file in plan.files if file.path == "launch.sh")


def test_a_trainer_that_knows_ray_asks_for_its_devices_itself() -> None:
    plan = plan_of("tiny-cpu.yaml")
    assert options(plan) == [f"address={URL}", "awaits=GPU 1", "joins=yes"]
    text = launch_script(plan)
    assert "RAY_ADDRESS" not in text and "RAY_TMPDIR" not in text and "RAY_AUTH" not in text
    assert "ray_init" not in text and "rlx_ray_job.py" in text
    elsewhere = launch_script(replace_site(plan))
    assert "export RAY_ADDRESS=local" in elsewhere and "num_cpus" in elsewhere and "rlx_ray_job" not in elsewhere


def replace_site(plan: LaunchPlan) -> LaunchPlan:
    from rlx.backends.protocol import load_backend

    resolved = load_recipe(REPOSITORY / "recipes" / f"{plan.name}.yaml").resolve("baseline", 1)
    return load_backend("verl").plan(resolved, replace(SITE, batch=None))


def test_several_nodes_are_one_job_that_waits_for_all_devices() -> None:
    plan = plan_of("tiny-cpu.yaml", "layout.nodes=2", "layout.devices_per_node=2")
    whole = as_nodes([plan], 2)
    assert not whole.workers and whole.cluster is None and gives_ray(SITE.batch)
    assert "awaits=GPU 4" in options(whole)
    assert "trainer.nnodes=2" in launch_script(whole)
    check(whole)


def test_any_other_trainer_has_its_devices_reserved() -> None:
    assert options(replace(script(), backend="trl", device_kind="cuda", devices=4))[1:] == ["reserves=GPU 4"]
    assert options(replace(script(), backend="trl", device_kind="npu", devices=2))[1:] == ["reserves=NPU 2"]
    assert options(replace(script(), backend="trl"))[1:] == []


def test_a_script_joins_ray_unless_it_is_given_devices() -> None:
    assert options(script())[1:] == ["joins=yes"]
    assert options(script(device_kind="npu", devices=8))[1:] == ["reserves=NPU 8"]


REFUSED = {
    "container": {"site": replace(SITE, container="rl", container_id="a" * 64)},
    "image": {"site": replace(SITE, job_image=Image("trainer:1"))},
    "numbers": {"device_kind": "npu", "devices": 2, "device_list": (0, 1)},
    "secret": {"secrets": ("WANDB_API_KEY",)},
    "nodes": {"backend": "mindspeed_rl", "recipe": {"layout": {"nodes": 2}}, "device_kind": "npu"},
    "address": {"site": replace(SITE, batch=batch_of(Ray("head:6379")))},
    "password": {"site": replace(SITE, batch=batch_of(Ray("http://me:hunter2@head:8265")))},
    "post": {"recipe": {"eval": {"post": {"rows": "x"}}}, "device_kind": "npu"},
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_a_job_is_refused(case: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(script(**REFUSED[case]))
    assert refused.value.hint and "hunter2" not in refused.value.message


def test_a_secret_reaches_what_ray_starts_nothing_of() -> None:
    check(script(backend="trl", secrets=("WANDB_API_KEY",), device_kind="cuda"))


def test_workers_get_what_the_run_has_set_and_nothing_of_ray() -> None:
    given = {"PATH": "/bin", "RAY_ADDRESS": "a:1", "HOME": "/root"}
    now = {**given, "PATH": "/env/bin:/bin", "RLX_RUN": "x", "RAY_TMPDIR": "/t", "RLX_RAY_JOB": "7", "SHLVL": "2"}
    now |= {"RAY_DEDUP_LOGS": "0", "CUDA_VISIBLE_DEVICES": "1", "BASH_FUNC_f%%": "() { :; }"}
    passed = own(now, given)
    assert passed == {"PATH": "/env/bin:/bin", "RAY_DEDUP_LOGS": "0", "RLX_RUN": "x"}
    before = json.dumps({"runtime_env": {"env_vars": {"A": "1"}}, "metadata": {"m": "n"}})
    assert json.loads(configuration(before, passed)) == {
        "runtime_env": {"env_vars": {"A": "1", **passed}},
        "metadata": {"m": "n"},
    }
    assert json.loads(configuration("", {})) == {"runtime_env": {"env_vars": {}}}


OWN = {"rlx_id": "toy-main-s1", "rlx_user": "ada", "rlx_reserves": "GPU 2"}
JOB = {"submission_id": "toy-main-s1", "job_id": None, "metadata": OWN, "start_time": 5000, "entrypoint": "sh"}


def test_the_queue_shows_resources_and_who_has_them() -> None:
    lines = [
        {"usage": {"GPU": [2.0, 4.0], "memory": [0.0, 9.0], "node:192.0.2.2": [0.0, 1.0]}},
        {**JOB, "status": "PENDING", "node": ""},
        {**JOB, "status": "RUNNING", "submission_id": None, "job_id": "01", "metadata": None, "node": "192.0.2.2"},
    ]
    queue = parse_jobs("\n".join(map(json.dumps, lines)), "cluster")
    assert queue.resources == (Resource("GPU", 2.0, 4.0),)
    other, mine = queue.jobs
    assert (mine.run_id, mine.user, mine.devices, mine.waits, mine.since) == ("toy-main-s1", "ada", "GPU:2", True, 5.0)
    assert (other.run_id, other.number, other.where, other.waits) == (None, "01", "192.0.2.2", False)
    with pytest.raises(RlxError, match="cluster"):
        parse_jobs("<html>", "cluster")


def test_a_program_of_a_part_keeps_its_lines(tmp_path: Path) -> None:
    """slim() takes comments and indentation of all else."""
    text = supervisor.script()
    begin, end = text.index("<<'END_OF_ray_api'\n"), text.index("\nEND_OF_ray_api\n")
    body = [line.removeprefix("|") for line in text[begin:end].splitlines()[1:]]
    program = REPOSITORY / "rlx/schedulers/ray/payload/ray_api.py"
    assert compile("\n".join(body), "ray_api.py", "exec")
    assert {line for line in body} <= set(program.read_text(encoding="utf-8").splitlines())
    assert sum("def " in line for line in body) == program.read_text(encoding="utf-8").count("def ")
