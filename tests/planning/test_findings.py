"""What is said about a host, given what its probes said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.cli.doctor import doctor_text
from rlx.model import Finding, Place, Severity, Site
from rlx.planning.host_query import findings_of, query_site
from rlx.planning.host_requirements import DataFile, HostRequirements, package_arguments, requirements_of
from rlx.recipe import load_recipe
from tests.conftest import CASES, REPOSITORY
from tests.planning.recorded import MACHINE, RecordedHost, recorded
from tests.planning.test_cases import FOLDERS, PROBES

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
NPUS = HostRequirements(backend="verl", version="0.7.1", device="npu", devices=8)
IN_CONTAINER = Site(container="verl-a3", root="/data/rlx", container_root="/data/rlx")
DOCKER = {"machine": MACHINE, "docker": recorded("docker", "running"), "container": recorded("container", "running")}


def look(
    answers: Mapping[str, str | None],
    inside: Mapping[str, str | None] | None = None,
    site: Site | None = None,
    wanted: HostRequirements | None = None,
    ahead_s: int = 0,
) -> tuple[Finding, ...]:
    """Where a test says nothing of npu-smi there is none; all else that it leaves out gave no answer."""
    none: Mapping[str, str | None] = {"npu_smi": recorded("npu_smi", "none")}
    host = RecordedHost({**none, **answers}, None if inside is None else {**none, **inside}, ahead_s)
    return findings_of(query_site(host, site or Site(), wanted))


def said(findings: tuple[Finding, ...]) -> dict[str, Severity]:
    """Id -> severity, without the complaint about probes that the test did not record."""
    return {finding.id: finding.severity for finding in findings if finding.id != "RLX520"}


def message(findings: tuple[Finding, ...], id_: str) -> str:
    return next(finding.message for finding in findings if finding.id == id_)


def packages(**versions: str) -> str:
    return json.dumps({"python": "3.11.9", "executable": "/usr/bin/python3", "packages": versions, "locations": {}})


def test_a_host_that_is_idle_and_healthy() -> None:
    found = look({"machine": MACHINE, "npu_smi": recorded("npu_smi", "a3-25.2-idle")})
    assert said(found) == {}


def test_who_holds_which_npu() -> None:
    found = look({"npu_smi": recorded("npu_smi", "a3-24.1-shared")})
    # Device 0 has two processes; 2 and 3 are NPU 1.
    assert "0: ? (3325989), ? (3330598); 1: ? (3328327); 2: ? (3330598); 3: ? (3333165)" in message(found, "RLX535")
    assert said(found) == {"RLX535": NOTE}


def test_memory_that_nobody_seems_to_hold() -> None:
    text = recorded("npu_smi", "a2-910b3-24.1").replace(
        "| 2       0                 | 1333928 ", "| 9       0                 | 1333928 "
    )
    assert "2 (41222 of 65536 MiB)" in message(look({"npu_smi": text}), "RLX536")


def test_sick_npus_are_an_error_if_the_recipe_needs_them_all() -> None:
    sick = {"npu_smi": recorded("npu_smi", "a2-26.0-alarm")}
    assert said(look(sick))["RLX534"] is WARNING
    found = look(sick, wanted=NPUS)
    assert said(found)["RLX534"] is ERROR
    assert "2 of 8 NPUs" in message(found, "RLX534") and "3 (Warning), 6 (Alarm)" in message(found, "RLX534")


def test_an_npu_that_is_gone_from_the_table() -> None:
    seven = recorded("npu_smi", "a2-910b3-24.1").replace("| 6     910B3 ", "| x     910B3 ")
    nodes = "".join(f"/dev/davinci{number} yes\n" for number in range(8))
    assert "/dev/davinci6" in message(look({"npu_smi": seven, "devices": nodes}), "RLX534")


@pytest.mark.parametrize("name", ["dcmi-8005", "dcmi-8020", "denied"])
def test_npu_smi_without_the_driver(name: str) -> None:
    assert said(look({"npu_smi": recorded("npu_smi", name)})) == {"RLX531": WARNING}
    assert said(look({"npu_smi": recorded("npu_smi", name)}, wanted=NPUS))["RLX531"] is ERROR


def test_a_host_without_npus_needs_no_npu_smi() -> None:
    assert said(look({"npu_smi": recorded("npu_smi", "none"), "devices": ""})) == {}


def test_npu_smi_that_hangs() -> None:
    found = look({"npu_smi": None})
    assert said(found)["RLX530"] is WARNING
    assert not any(finding.id == "RLX531" for finding in found)


def test_fewer_nodes_than_the_recipe_wants() -> None:
    nodes = recorded("devices", "a3")
    inside = {"devices": "/dev/davinci0 yes\n"}
    found = look(DOCKER | {"devices": nodes}, inside, IN_CONTAINER, NPUS)
    assert said(found)["RLX533"] is ERROR
    fix = next(finding.fix for finding in found if finding.id == "RLX533")
    assert "--device /dev/davinciN" in fix
    assert "/dev/hisi_hdc" in message(look({"devices": nodes}), "RLX532")


def test_an_image_for_another_chip() -> None:
    on_a2 = look(DOCKER | {"npu_smi": recorded("npu_smi", "a2-910b3-24.1")}, {}, IN_CONTAINER)
    on_a3 = look(DOCKER | {"npu_smi": recorded("npu_smi", "a3-25.2-idle")}, {}, IN_CONTAINER)
    assert said(on_a2)["RLX537"] is WARNING and "RLX537" not in said(on_a3)


@pytest.mark.parametrize(
    ("name", "fix"), [("denied", "usermod -aG docker ada"), ("down", "start docker"), ("missing", "install")]
)
def test_docker_that_cannot_be_used(name: str, fix: str) -> None:
    answers = {"machine": MACHINE, "docker": recorded("docker", name), "container": "permission denied\n"}
    found = look(answers, None, IN_CONTAINER)
    assert said(found)["RLX521"] is ERROR and "RLX522" not in said(found)
    assert fix in next(finding.fix for finding in found if finding.id == "RLX521")
    # A host on which runs go without a container needs no Docker.
    assert "RLX521" not in said(look(answers))


def test_a_container_that_is_not_there_or_does_not_run() -> None:
    gone = look(DOCKER | {"container": recorded("container", "none")}, None, IN_CONTAINER)
    assert "verl-a3" in next(finding.fix for finding in gone if finding.id == "RLX522")
    stopped = look(DOCKER | {"container": recorded("container", "no-digest")}, None, IN_CONTAINER)
    assert "exited" in message(stopped, "RLX522")


def test_how_a_container_was_created() -> None:
    inside = {"machine": "open_files=1024\n", "processes": recorded("processes", "zombies")}
    found = look(DOCKER, inside, IN_CONTAINER)
    assert said(found) == {"RLX516": WARNING, "RLX518": NOTE, "RLX524": NOTE, "RLX525": WARNING, "RLX526": NOTE}
    with_npus = look(DOCKER, inside | {"devices": recorded("devices", "a3")}, IN_CONTAINER)
    assert said(with_npus)["RLX526"] is WARNING
    assert message(found, "RLX516").startswith("2283 zombie processes: 2280 of sleep (1)")
    elsewhere = look(DOCKER, inside, Site(container="verl-a3", root="/home/ada/rlx"))
    assert "/home/ada/rlx" in message(elsewhere, "RLX527")
    # A launch takes the shared folder by itself where nobody has chosen a root.
    assert "RLX527" not in said(look(DOCKER, inside, Site(container="verl-a3")))


def folder(**changes: str) -> str:
    values = {"path": "~/rlx", "existing": "/home/ada", "writable": "yes", "type": "ext2/ext3"}
    values |= {"space": "/dev/sda 1 1 99999999 1% /", "inodes": "/dev/sda 100000 1 99999 1% /"} | changes
    return "".join(f"{key}={value}\n" for key, value in values.items())


def test_a_root_that_no_run_will_lie_in_stops_no_launch() -> None:
    """Into a container, a launch takes the folder that is shared, where nobody has chosen another."""
    full = {"disk": folder(space="/dev/sda 9 9 1000 99% /", writable="no")}
    found = said(look(DOCKER | full, {}, Site(container="verl-a3")))
    assert found["RLX512"] is WARNING and "RLX513" not in found
    chosen = folder(path="/data/rlx", existing="/data", writable="no")
    assert "RLX513" in said(look(DOCKER | {"disk": chosen}, {}, Site(container="verl-a3", root="/data/rlx")))


def test_where_all_of_a_run_is_in_the_container_the_host_needs_no_tools() -> None:
    alone = json.loads(recorded("container", "running").splitlines()[0]) | {"mounts": []}
    answers = DOCKER | {"container": json.dumps(alone), "tools": "sh=/bin/sh\n"}
    found = look(answers, {"tools": "sh=/bin/sh\n"}, Site(container="verl-a3"))
    (missing,) = [finding for finding in found if finding.id == "RLX510"]
    assert "flock" in missing.message and missing.where == "container verl-a3"
    # A launch that has settled inside, since none of the shared folders could be used, asks for the same.
    inside = Site(Place("a3", inside="verl-a3"), container="verl-a3")
    settled = look(DOCKER | {"tools": "sh=/bin/sh\n"}, {"tools": "sh=/bin/sh\n"}, inside)
    assert [finding.where for finding in settled if finding.id == "RLX510"] == ["container verl-a3"]


def test_a_small_tmp_is_no_reason_to_refuse() -> None:
    assert said(look({"disk": folder(path="/tmp", space="tmpfs 9 9 1000 99% /tmp")})) == {"RLX512": WARNING}


def test_disk_that_is_full_closed_or_memory() -> None:
    assert said(look({"disk": folder()})) == {}
    assert said(look({"disk": folder(space="/dev/sda 9 9 5242880 50% /")})) == {"RLX512": WARNING}
    assert said(look({"disk": folder(space="/dev/sda 9 9 1000 99% /")})) == {"RLX512": ERROR}
    assert said(look({"disk": folder(inodes="/dev/sda 100000 99990 10 99% /")})) == {"RLX512": WARNING}
    assert said(look({"disk": folder(inodes="/dev/sda 0 0 0 - /")})) == {}
    assert said(look({"disk": folder(writable="no")})) == {"RLX513": ERROR}
    assert said(look({"disk": folder(type="tmpfs")})) == {"RLX514": WARNING}


@pytest.mark.parametrize(("ahead_s", "words"), [(86_400, "ahead of"), (-86_400, "behind")])
def test_a_clock_that_is_a_day_off(ahead_s: int, words: str) -> None:
    assert words in message(look({}, ahead_s=ahead_s), "RLX515")
    assert "RLX515" not in said(look({}, ahead_s=ahead_s // 10_000))


def test_programs_that_are_missing() -> None:
    tools = "".join(
        f"{tool}=/usr/bin/{tool}\n"
        for tool in ("tar", "gzip", "mktemp", "setsid", "stat", "tail", "xargs", "grep", "awk", "od")
    )
    found = look({"tools": tools + "stat_format=yes\nsed=/bin/sed\n"})
    assert message(found, "RLX510") == "missing: flock, bash"
    assert said(found) == {"RLX510": ERROR, "RLX511": NOTE}
    busybox = look({"tools": tools + "flock=/bin/flock\nsed=/bin/sed\nbash=/bin/bash\ntmux=/usr/bin/tmux\n"})
    assert all(name in message(busybox, "RLX510") for name in ("flock", "util-linux", "stat", "coreutils"))


def test_versions_that_are_documented_together() -> None:
    known = packages(
        verl="0.7.1",
        torch="2.8.0+cpu",
        torch_npu="2.8.0.post1",
        vllm="0.13.0+empty",
        vllm_ascend="0.13.0rc1",
        numpy="1.26.4",
    )
    assert said(look({"packages": known, "ascend": recorded("ascend", "container-cann-8.5"), "accelerator": ""})) == {}


@pytest.mark.parametrize(
    ("versions", "id_", "severity", "words"),
    [
        ({"torch": "2.7.1", "torch_npu": "2.5.1"}, "RLX541", ERROR, "not built for each other"),
        ({"vllm": "0.11.0", "vllm_ascend": "0.9.1"}, "RLX541", WARNING, "not built for each other"),
        ({"vllm": "0.13.0", "verl": "0.6.1"}, "RLX541", WARNING, "vllm.lora.models"),
        ({"ray": "2.55.1", "torch_npu": "2.8.0"}, "RLX541", WARNING, "ASCEND_RT_VISIBLE_DEVICES"),
        ({"triton": "3.2.0", "triton_ascend": "3.2.0"}, "RLX541", WARNING, "overwrites"),
        ({"numpy": "2.1.0", "torch_npu": "2.8.0"}, "RLX541", WARNING, "numpy below 2"),
        (
            {"verl": "0.7.1", "torch_npu": "2.8.0", "transformers": "5.9.0"},
            "RLX541",
            WARNING,
            "5.9.0 instead of 4.57.6",
        ),
        ({"verl": "0.7.1", "torch_npu": "2.7.1"}, "RLX540", NOTE, "torch_npu 2.7.1 instead of 2.8.0"),
        ({"verl": "0.5.0.dev0", "torch_npu": "2.7.1"}, "RLX540", NOTE, "in no table"),
        # Seed 001's own set, which fits no row and worked.
        (
            {
                "mindspeed_rl": "2.1.0",
                "torch": "2.7.1",
                "torch_npu": "2.7.1",
                "ray": "2.53.0",
                "transformers": "4.57.1",
            },
            "RLX540",
            NOTE,
            "mindspeed_rl master is documented with another combination: ray 2.53.0 instead of 2.42.1 or 2.54.0",
        ),
    ],
)
def test_versions_that_are_not(versions: dict[str, str], id_: str, severity: Severity, words: str) -> None:
    found = look({"packages": packages(**versions)})
    assert said(found) == {id_: severity}
    assert words in message(found, id_)


def test_other_versions_of_the_back_end_than_the_recipe_says() -> None:
    wanted = HostRequirements(backend="verl", version="0.7.1")
    assert said(look({"packages": packages(verl="0.9.1")}, wanted=wanted)) == {"RLX544": WARNING}
    assert said(look({"packages": packages(verl="0.7.1+fork")}, wanted=wanted)) == {}
    assert said(look({"packages": packages()}, wanted=wanted)) == {"RLX543": ERROR}
    missing = {"packages": recorded("packages", "python-missing")}
    assert said(look(missing, wanted=wanted)) == {"RLX542": ERROR}
    assert said(look(missing)) == {"RLX542": NOTE}


def test_python_that_does_not_reach_the_npus() -> None:
    no_acl = '{"acl": {"error": "ModuleNotFoundError: No module named \'acl\'"}}\n'
    assert "No module named 'acl'" in message(look({"accelerator": no_acl}, wanted=NPUS), "RLX538")
    assert "RLX538" not in said(look({"accelerator": no_acl}))
    blind = look({"accelerator": recorded("accelerator", "no-devices"), "packages": packages(torch_npu="2.7.1")})
    assert said(blind)["RLX539"] is ERROR


def test_cpus_that_mindspeed_rl_would_wait_for() -> None:
    wanted = HostRequirements(backend="mindspeed-rl", devices=16)
    assert "RLX519" not in said(look({"machine": MACHINE}, wanted=wanted))
    found = look({"machine": MACHINE.replace("cpus=192", "cpus=64")}, wanted=wanted)
    assert "64 CPUs; MindSpeed-RL asks Ray for 128" in message(found, "RLX519")


def test_what_a_recipe_for_mindspeed_rl_needs_there(tmp_path: Path) -> None:
    """Six packed files, weights that Megatron loads, and CPUs for its placement groups and local tasks."""
    base = CASES / "preflight/bases/mindspeed-rl.yaml"
    (tmp_path / "recipe.yaml").write_text(f"version: 1\nname: case\nextends: {base}\n", encoding="utf-8")
    wanted = requirements_of([load_recipe(tmp_path / "recipe.yaml").resolve("main")])
    assert wanted.cpus == 16 * 8 + 2
    packed = [file.path for file in wanted.files if file.role == "packed"]
    assert len(packed) == 6 and "/data/deepscaler/data_packed_labels_document.idx" in packed
    model = {"role": "model", "path": wanted.files[0].path, "kind": "folder", "config": True, "weight_files": 2}
    weights = {"role": "mcore", "path": "/data/mcore/qwen2.5-7b-tp2-pp2", "kind": "folder", "tracker": True}
    there = [{"role": "packed", "path": path, "kind": "file"} for path in packed]

    def asked(*rows: dict[str, Any]) -> dict[str, Severity]:
        lines = "\n".join(json.dumps(row) for row in rows)
        return said(look({"paths": lines, "packages": packages(mindspeed_rl="2.1.0")}, wanted=wanted))

    assert asked(model, weights, *there) == {}
    assert asked(model, weights, *there[1:], {**there[0], "kind": None}) == {"RLX550": ERROR}
    assert asked(model, {**weights, "tracker": False, "weight_files": 3}, *there) == {"RLX550": ERROR}
    assert asked(model, {**weights, "kind": None}, *there) == {"RLX550": ERROR}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def compute_score(solution_str, ground_truth, method='strict'):\n    return 1\n", {"RLX554": ERROR}),
        (
            "def compute_score(data_source, solution_str, ground_truth, extra_info, judge):\n    return 1\n",
            {"RLX554": ERROR},
        ),
        ("def compute_score(data_source, solution_str, ground_truth):\n    return 1\n", {"RLX554": ERROR}),
        ("def compute_score(:\n", {"RLX554": ERROR}),
        (None, {"RLX550": ERROR}),
        ("def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1\n", {}),
        ("def compute_score(solution_str, **kwargs):\n    return 1\n", {}),
        ("@cached\ndef compute_score(anything):\n    return 1\n", {}),
        ("from mine import compute_score\n", {}),
    ],
)
def test_a_reward_function_that_lies_on_the_host(tmp_path: Path, source: str | None, expected: object) -> None:
    """It is read there, and nothing of it runs: the file would leave a trace."""
    file, trace = tmp_path / "reward.py", tmp_path / "ran"
    if source is not None:
        file.write_text(f"{source}\nopen({str(trace)!r}, 'w')\n", encoding="utf-8")
    base = CASES / "preflight/bases/fsdp-npu.yaml"
    keys = f"overrides: {{reward.custom_reward_function.path: {file}}}"
    (tmp_path / "recipe.yaml").write_text(f"version: 1\nname: case\nextends: {base}\n{keys}\n", encoding="utf-8")
    wanted = requirements_of([load_recipe(tmp_path / "recipe.yaml").resolve("main")])
    script = REPOSITORY / "rlx/planning/probing/scripts/paths.py"
    command = [sys.executable, str(script), "", "reward", str(file)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    others = [{"role": each.role, "path": each.path, "kind": "file"} for each in wanted.files if each.role != "reward"]
    folder = {"role": "model", "path": wanted.files[0].path, "kind": "folder", "config": True, "weight_files": 2}
    lines = "\n".join([json.dumps(folder), *(json.dumps(row) for row in others[1:]), answer])
    found = look({"paths": lines, "packages": packages(verl="0.9.1")}, wanted=wanted)
    assert {id: severity for id, severity in said(found).items() if id in ("RLX550", "RLX554")} == expected
    assert not trace.exists()


def test_model_and_data() -> None:
    files = (DataFile("model", "/m"), DataFile("train", "/t.parquet", 7473, "prompt"), DataFile("val", "/v.parquet"))
    wanted = HostRequirements(backend="verl", files=files)

    def asked(*rows: dict[str, Any]) -> dict[str, Severity]:
        lines = "\n".join(json.dumps(row) for row in rows)
        return said(look({"paths": lines, "packages": packages(verl="0.7.1")}, wanted=wanted))

    model = {"role": "model", "path": "/m", "kind": "folder", "config": True, "weight_files": 2}
    train = {"role": "train", "path": "/t.parquet", "kind": "file", "rows": 7473, "columns": ["prompt", "answer"]}
    assert asked(model, train) == {}
    assert asked({**model, "kind": None}) == {"RLX550": ERROR}
    assert asked({**model, "weight_files": 0}) == {"RLX550": ERROR}
    assert asked({**train, "kind": None}) == {"RLX550": ERROR}
    assert asked({**train, "rows": 7000}) == {"RLX551": WARNING}
    assert asked({**train, "columns": ["question"]}) == {"RLX552": ERROR}
    assert asked({**train, "unread": "there is no pyarrow"}) == {"RLX553": NOTE}


class Hub(BaseHTTPRequestHandler):
    """Answers about two models, and notes the method of every question."""

    asked: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self.asked.append(self.command)
        self.send_response({"/there/it-is": 200, "/gated/it-is": 401}.get(self.path.partition("/resolve/")[0], 404))
        self.end_headers()

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("name", "env", "expected", "words"),
    [
        ("cached/it-is", {}, {}, ""),
        ("there/it-is", {}, {"RLX555": NOTE}, "downloads it"),
        ("there/it-is", {"HF_HUB_OFFLINE": "1"}, {"RLX550": ERROR}, "offline"),
        ("gated/it-is", {}, {"RLX550": ERROR}, "token"),
        ("nowhere/it-is", {}, {"RLX550": ERROR}, "no such model"),
        ("there/it-is", {"HF_ENDPOINT": "http://127.0.0.1:9"}, {"RLX550": ERROR}, "cannot be reached"),
    ],
)
def test_a_model_of_the_hub_is_looked_for_and_not_downloaded(
    name: str, env: dict[str, str], expected: object, words: str, hub: str, tmp_path: Path
) -> None:
    snapshot = tmp_path / "hub/models--cached--it-is/snapshots/0a1b"
    snapshot.mkdir(parents=True)
    for file in ("config.json", "model.safetensors"):
        (snapshot / file).touch()
    script = REPOSITORY / "rlx/planning/probing/scripts/paths.py"
    around = {"PATH": os.environ["PATH"], "HF_HOME": str(tmp_path), "HF_ENDPOINT": hub, "no_proxy": "127.0.0.1", **env}
    command = [sys.executable, str(script), "", "model", name]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=around).stdout
    wanted = HostRequirements(backend="verl", files=(DataFile("model", name),))
    found = look({"paths": answer, "packages": packages(verl="0.7.1")}, wanted=wanted)
    assert said(found) == expected
    assert words in "".join(finding.message for finding in found)
    assert set(Hub.asked) <= {"HEAD"}


def test_devices_that_only_the_entry_of_the_host_has() -> None:
    eight = HostRequirements(declared=("npu", 8))
    assert said(look({"devices": ""}, wanted=eight)) == {"RLX507": ERROR}
    two = "/dev/davinci0 yes\n/dev/davinci1 yes\n"
    assert "2 device node(s)" in message(look({"devices": two}, wanted=eight), "RLX507")
    assert said(look({"devices": two}, wanted=replace(eight, devices=2))) == {"RLX507": WARNING}
    gpus = "/dev/nvidia0 yes\n/dev/nvidia1 yes\n"
    assert said(look({"devices": gpus}, wanted=HostRequirements(declared=("cuda", 2)))) == {}
    assert said(look({"devices": gpus}, wanted=HostRequirements(declared=("cuda", 4)))) == {"RLX507": ERROR}
    assert said(look({}, wanted=eight)) == {}, "nothing is known"


def test_trackers_of_the_recipe_that_are_not_there(tmp_path: Path) -> None:
    """The real script looks, with an interpreter that has nothing but what lies in the folder of the run."""
    base = CASES / "preflight/bases/fsdp-npu.yaml"
    (tmp_path / "recipe.yaml").write_text(
        f"version: 1\nname: case\nextends: {base}\ntrack: {{to: [wandb, trackio]}}\n", encoding="utf-8"
    )
    wanted = replace(requirements_of([load_recipe(tmp_path / "recipe.yaml").resolve("main")]), backend=None)
    script = REPOSITORY / "rlx/planning/probing/scripts/packages.py"
    command = [sys.executable, "-IS", script, tmp_path, *package_arguments(), *wanted.trackers]

    def asked() -> tuple[Finding, ...]:
        done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
        found = look({"packages": done.stdout}, wanted=wanted)
        return tuple(finding for finding in found if finding.id == "RLX473")

    assert [finding.severity for finding in asked()] == [WARNING, WARNING]
    (tmp_path / "trackio.py").touch()
    (left,) = asked()
    assert "wandb" in left.message and "trackio" not in left.message
    assert left.fix.endswith("rlx export RUN --to wandb")
    (tmp_path / "wandb").mkdir()
    assert asked() == (left,), "a folder of that name, such as wandb makes, is no package"
    (tmp_path / "wandb/__init__.py").touch()
    assert asked() == ()


def test_names_on_the_host_do_not_steer_the_terminal() -> None:
    table = recorded("npu_smi", "a2-910b2-25.2-busy").replace("VLLMWorker_TP", "\x1b[2Jvllm\x9b1m ")
    results = query_site(RecordedHost({"machine": MACHINE, "npu_smi": table}), Site())
    text = doctor_text(results, findings_of(results))
    assert "vllm" in text and "\x1b" not in text and "\x9b" not in text


def test_the_worst_comes_first() -> None:
    found = look({"tools": "tmux=/usr/bin/tmux\n", "npu_smi": recorded("npu_smi", "a3-24.1-shared"), "machine": None})
    severities = [finding.severity for finding in found]
    assert severities == sorted(severities, key=[ERROR, WARNING, NOTE].index) and severities[0] is ERROR


SEEDS = [(folder.parent.name, (folder / "input.txt").read_text(encoding="utf-8")) for folder in FOLDERS]


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, str]:
    """A recorded output with a part cut out and something else in its place."""
    probe, text = draw(st.sampled_from(SEEDS))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 200)))
    return probe, text[:start] + draw(st.text(max_size=20)) + text[end:]


@pytest.mark.long
@given(damaged() | st.tuples(st.sampled_from(sorted(PROBES)), st.text()))
@settings(max_examples=300, deadline=None)
def test_no_output_is_an_error_of_rlx(output: tuple[str, str]) -> None:
    probe, text = output
    json.dumps(PROBES[probe].parse(text))
    wanted = HostRequirements("verl", "0.7.1", device="npu", devices=8, files=(DataFile("train", "/t", 5, "prompt"),))
    answers = {"docker": recorded("docker", "running"), "container": recorded("container", "running"), probe: text}
    for site in (Site(), IN_CONTAINER):
        for finding in look(answers, {probe: text}, site, wanted):
            assert finding.message and finding.fix


@pytest.mark.parametrize(
    ("versions", "warns"),
    [
        ({"verl": "0.6.1", "ray": "2.46.0"}, True),
        ({"mindspeed_rl": "2.1.0", "ray": "2.51.1"}, True),
        ({"verl": "0.9.1", "ray": "2.52.0"}, False),
        ({"verl": "0.9.1", "ray": "2.60.0"}, False),
        ({"verl": "0.9.1"}, False),
        # It starts no Ray.
        ({"trl": "1.16.0", "ray": "2.40.0"}, False),
    ],
    ids=str,
)
def test_a_ray_without_tokens_is_told(versions: dict[str, str], warns: bool) -> None:
    found = said(look({"machine": MACHINE, "packages": packages(**versions)}))
    assert (found.get("RLX414") is WARNING) is warns
