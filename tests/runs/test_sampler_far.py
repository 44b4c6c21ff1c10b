"""What a run's devices do, seen from another machine: npu-smi is played on the host, everything else is real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rlx.model import RunState
from tests.rig import Rig
from tests.runs.laptop import GO, Laptop, go, npu_toy, patiently


def test_samples_travel_with_the_status_and_are_copied_to_their_end(
    new_rig: Callable[[int], Rig], tmp_path: Path
) -> None:
    rig = new_rig(1)
    host, laptop = rig.host("h1"), Laptop(rig.client, tmp_path / "home")
    host.add_devices(*(f"davinci{n}" for n in range(4)), "davinci_manager")
    # Devices 0 and 1 of this recording are in use by others.
    host.play_npu_smi("a3-ascend910-busy")
    ref = laptop.start(host, npu_toy(laptop.site("h1"), GO, 2, 3))
    row = patiently(lambda: found if (found := laptop.rows()["main"])["sample"] else None, "a sample is seen")
    assert [(use["device"], use["total"], use["others"]) for use in row["sample"]["devices"]] == [
        (2, 65536, 0),
        (3, 65536, 0),
    ]
    assert 0 <= row["sample_age"] < 60 and row["sample"]["processes"] > 0
    shown = laptop.rlx("status", "-v").out
    assert "device 2, " in shown and " s ago: " in shown and " of 64.0 GiB, utilisation " in shown
    go(host, ref)
    assert laptop.ended(ref).state is RunState.FINISHED
    laptop.rows()
    copy = (laptop.home / "mirror" / ref.run_id / "attempts/1/usage").read_text(encoding="utf-8").splitlines()
    assert copy[0].startswith("start ") and "devices=2,3" in copy[0]
    assert any(line.startswith("end kills=") for line in copy[-2:])
