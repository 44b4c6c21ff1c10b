"""Recorded outputs of probes: a folder in `tests/cases/probes/<probe>/` holds input, expected facts, and its source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlx.planning.probing.docker import CONTAINER, DOCKER
from rlx.planning.probing.machine import DISK, MACHINE, PROCESSES, TOOLS
from rlx.planning.probing.npu import ASCEND, DEVICES, NPU_SMI
from rlx.planning.probing.training_environment import ACCELERATOR, PACKAGES, PATHS
from rlx.schedulers.slurm.login_node import SLURM
from tests.conftest import CASES

PROBES = {
    probe.name: probe
    for probe in (
        *(MACHINE, TOOLS, DISK, PROCESSES, DOCKER, CONTAINER),
        *(NPU_SMI, DEVICES, ASCEND, PACKAGES, ACCELERATOR, PATHS, SLURM),
    )
}
FOLDERS = sorted((CASES / "probes").glob("*/*"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_recorded_output_is_understood(folder: Path) -> None:
    found = PROBES[folder.parent.name].parse((folder / "input.txt").read_text(encoding="utf-8"))
    assert found == json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    assert (folder / "README.md").read_text(encoding="utf-8").strip()


def test_every_generation_of_npu_smi_names_its_devices() -> None:
    """What a lease needs of the table: each chip's /dev/davinciN once, whatever the generation."""
    tables = [folder for folder in FOLDERS if folder.parent.name == "npu_smi"]
    for folder in tables:
        chips = NPU_SMI.parse((folder / "input.txt").read_text(encoding="utf-8"))["chips"]
        devices = [chip["device"] for chip in chips]
        assert len(set(devices)) == len(devices) and None not in devices
        assert all(chip["name"] and chip["health"] and chip["total_mib"] for chip in chips)
    assert len(tables) >= 12
