"""What the doctor says of a login node of Slurm, by answers that were recorded from one."""

from __future__ import annotations

import pytest

from rlx.model import Place, Site
from rlx.planning.host_query import findings_of, host_questions
from rlx.planning.host_requirements import HostRequirements
from rlx.planning.probing.probe import ProbeResults, Side
from rlx.schedulers.slurm.login_node import SLURM
from rlx.schedulers.slurm.settings import Slurm, batch_of
from tests.planning.recorded import recorded

SITE = Site(Place("hpc", "me@login"), root="/shared/rlx", batch=batch_of(Slurm("main", "npu:4", {"account": "lab"})))
FOLDER = {"path": "/shared/rlx", "existing": "/shared", "writable": True, "mount": "/", "total_kib": None}
ROOM = {**FOLDER, "free_kib": None, "inodes": None, "free_inodes": None}


def found(case: str, wanted: HostRequirements, file_system: str = "nfs") -> dict[str, str]:
    disk = {"paths": [{**ROOM, "type": file_system}]}
    side = Side({"slurm": SLURM.parse(recorded("slurm", case)), "disk": disk})
    return {finding.id: str(finding.severity) for finding in findings_of(ProbeResults(SITE, wanted, side))}


@pytest.mark.parametrize(
    ("case", "devices", "expected"),
    [
        ("usable", 4, {}),
        ("usable", 8, {"RLX598": "error"}),
        ("no-accounting", 4, {"RLX595": "note"}),
        ("no-such-partition", 4, {"RLX597": "error"}),
        # One node is drained: what it would take, nobody asked it.
        ("too-many-devices", 4, {"RLX597": "warning"}),
        ("down", 4, {"RLX596": "warning", "RLX597": "warning"}),
        ("silent", 4, {"RLX595": "error"}),
        ("not-here", 4, {"RLX595": "error"}),
    ],
)
def test_answers_become_findings(case: str, devices: int, expected: dict[str, str]) -> None:
    assert found(case, HostRequirements("verl", device="npu", devices=devices)) == expected


def test_a_run_of_more_nodes_than_the_partition_has_would_wait_for_ever() -> None:
    assert found("usable", HostRequirements("verl", device="npu", devices=4, nodes=3)) == {}
    assert found("usable", HostRequirements("verl", device="npu", devices=4, nodes=4)) == {"RLX598": "error"}


def test_a_root_on_a_disk_of_the_login_node_is_warned_of() -> None:
    assert found("usable", HostRequirements(), "ext4") == {"RLX599": "warning"}


def test_slurm_is_asked_for_a_job_of_the_entry_and_nothing_about_devices_here() -> None:
    asked = {question.probe.name: question.arguments for question in host_questions(SITE)}
    assert asked["slurm"] == ("main", "--gres=npu:4", "--account=lab")
    assert not {"devices", "npu_smi", "docker"} & asked.keys()
