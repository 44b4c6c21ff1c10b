"""What the doctor says of the head of a Ray cluster, by what its dashboard says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlx.model import Place, Site
from rlx.planning.host_query import findings_of, host_questions
from rlx.planning.host_requirements import HostRequirements
from rlx.planning.probing.probe import ProbeResults, Side
from rlx.schedulers.ray import login_node
from rlx.schedulers.ray.settings import Ray, batch_of

URL = "http://127.0.0.1:8265"
SITE = Site(Place("cluster", "me@head"), root="/shared/rlx", batch=batch_of(Ray(URL)))
CLUSTER = {
    "ray": "2.60.0",
    "python": "3.11.7",
    "usage": {"CPU": [2.0, 16.0], "GPU": [1.0, 4.0], "objectStoreMemory": [0.0, 1e9]},
    "nodes": ["192.0.2.2"],
}
HERE = {"python": "3.11.7", "executable": "/opt/env/bin/python3", "locations": {"verl": "/verl"}}
FOLDER = {"path": "/shared/rlx", "existing": "/shared", "writable": True, "mount": "/", "total_kib": None}
ROOM = {**FOLDER, "free_kib": None, "inodes": None, "free_inodes": None}


def results(
    text: str, wanted: HostRequirements, *, ray: str = "2.60.0", python: str = "3.11.7", file_system: str = "nfs"
) -> ProbeResults:
    packages = {**HERE, "python": python, "packages": {"verl": "0.9.1", **({"ray": ray} if ray else {})}}
    disk = {"paths": [{**ROOM, "type": file_system}]}
    return ProbeResults(SITE, wanted, Side({"ray": login_node.RAY.parse(text), "packages": packages, "disk": disk}))


def found(text: str, wanted: HostRequirements, **options: Any) -> dict[str, str]:
    every = findings_of(results(text, wanted, **options))
    return {each.id: str(each.severity) for each in every if each.id.startswith("RLX58")}


def cluster(**changed: Any) -> str:
    return json.dumps({**CLUSTER, **changed})


def verl(devices: int = 4, device: str = "cuda", nodes: int = 1) -> HostRequirements:
    return HostRequirements("verl", "0.9.1", device=device, devices=devices, nodes=nodes)


@pytest.mark.parametrize(
    ("text", "wanted", "options", "expected"),
    [
        (cluster(), verl(), {}, {}),
        (cluster(), verl(2, nodes=2), {}, {}),
        (cluster(), verl(4, nodes=2), {}, {"RLX582": "error"}),
        (cluster(), verl(1, "npu"), {}, {"RLX582": "error"}),
        (cluster(), verl(1, "cpu"), {}, {}),
        (cluster(usage={"CPU": [0.0, 8.0]}), verl(1, "cpu"), {}, {"RLX582": "error"}),
        # A cluster that has just begun says nothing of itself yet.
        (cluster(usage={}), verl(), {}, {}),
        # Ray joins no other version; what does not join may have any, or none.
        (cluster(), verl(), {"ray": "2.58.0"}, {"RLX581": "error"}),
        (cluster(), verl(), {"ray": ""}, {"RLX581": "error"}),
        (cluster(), verl(), {"python": "3.11.9"}, {"RLX581": "error"}),
        (cluster(), HostRequirements("trl", device="cuda", devices=4), {"ray": ""}, {}),
        (cluster(), HostRequirements("trl", device="cpu", devices=1), {}, {}),
        (cluster(nodes=["a", "b"]), verl(), {"file_system": "ext4"}, {"RLX587": "warning"}),
        (cluster(), verl(), {"file_system": "ext4"}, {}),
        ("Ray at http://127.0.0.1:8265: Connection refused", verl(), {}, {"RLX580": "error"}),
        ("there is no Python 3.8 or later", verl(), {}, {"RLX580": "error"}),
        ("", verl(), {}, {"RLX580": "error"}),
        ("[1]", verl(), {}, {"RLX580": "error"}),
        ("RLX583 it runs as user 1000 of this machine", verl(), {}, {"RLX583": "error"}),
    ],
)
def test_answers_become_findings(
    text: str, wanted: HostRequirements, options: dict[str, Any], expected: dict[str, str]
) -> None:
    assert found(text, wanted, **options) == expected


def test_the_doctor_shows_both_sides() -> None:
    rows = dict(login_node.rows(results(cluster(), verl(), ray="2.58.0", python="3.10.1")))
    assert URL in rows["dashboard"]
    assert "2.60.0" in rows["Ray"] and "2.58.0" in rows["Ray"]
    assert "3.11.7" in rows["Python of Ray"] and "3.10.1" in rows["Python of Ray"]
    assert "1 node;" in rows["cluster"] and "GPU 3 of 4" in rows["cluster"] and "Memory" not in rows["cluster"]
    assert list(dict(login_node.rows(results("Connection refused", verl())))) == ["dashboard"]


def test_nothing_is_asked_about_devices_of_the_head() -> None:
    asked = {question.probe.name: question.arguments for question in host_questions(SITE)}
    assert asked["ray"][1] == URL
    assert not {"devices", "npu_smi", "docker"} & asked.keys()
