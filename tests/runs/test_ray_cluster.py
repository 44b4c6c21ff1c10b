"""Runs as jobs of a real Ray cluster that is there already, with neighbours who know nothing of rlx."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlx.hosts.inventory.host_files import user_file
from tests.ray_cluster import RayHead, free_ports, ray_head

Rlx = Callable[..., "subprocess.CompletedProcess[str]"]
HOSTS = "hosts:\n  local: {ray: {address: '%s'}, device: {kind: cuda, count: 2}}\n"
# Ray's own stop kills 3 s after SIGTERM: this one takes longer to end in good order.
SLOW = "trap 'sleep 5; echo saved; exit 0' TERM\n"
FOREVER = "while :; do sleep 0.1; done\n"


@pytest.fixture(scope="module")
def real_ray() -> Iterator[RayHead]:
    with tempfile.TemporaryDirectory(prefix="rlx-ray-", dir="/tmp") as folder, ray_head(Path(folder)) as head:
        yield head


@pytest.fixture
def rlx(tmp_path: Path) -> Iterator[Rlx]:
    """`rlx` of somebody with an RLX_HOME of their own."""

    def run(*words: str, code: int | None = 0, home: str = "home") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "RLX_HOME": str(tmp_path / home)}
        done = subprocess.run(
            [sys.executable, "-m", "rlx", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            encoding="utf-8",
            timeout=400,
        )
        assert code in (None, done.returncode), f"{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done

    yield run
    run("stop", "--all", "-y", "--grace", "1", code=None)


@pytest.fixture
def launch(rlx: Rlx, tmp_path: Path) -> Callable[..., str]:
    def start(name: str, text: str, *options: str, home: str = "home") -> str:
        script = tmp_path / f"{name}.sh"
        script.write_text(f'echo "seen <${{CUDA_VISIBLE_DEVICES-}}>"\n{text}', encoding="utf-8")
        words = ("launch", "--script", str(script), "--name", name, "--host", "local", "-y", *options)
        return rlx(*words, home=home).stdout.strip()

    return start


def use(address: str) -> None:
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(HOSTS % address, encoding="utf-8")


def row(rlx: Rlx, run: str) -> dict[str, Any]:
    (found,) = json.loads(rlx("status", "--json", run).stdout)["runs"]
    return dict(found)


def reaches(real_ray: RayHead, rlx: Rlx, run: str, state: str) -> dict[str, Any]:
    return real_ray.until(lambda: found if (found := row(rlx, run))["state"] == state else {}, f"{run} is {state}")


def begins(real_ray: RayHead, rlx: Rlx, run: str) -> str:
    return real_ray.until(lambda: text if "seen" in (text := rlx("logs", run).stdout) else "", f"{run} begins")


def test_a_script_becomes_a_job_that_ends_as_the_script_does(
    real_ray: RayHead, rlx: Rlx, launch: Callable[..., str], tmp_path: Path
) -> None:
    use(real_ray.address)
    run = launch("toy", f"until [ -e {tmp_path}/go ]; do sleep 0.1; done\n", "--devices", "1")
    assert begins(real_ray, rlx, run).count("seen <") == 1
    assert real_ray.state(run) == "RUNNING"
    assert real_ray.free()["GPU"] == 1.0
    shown = json.loads(rlx("queue", "local", "--json").stdout)["hosts"][0]
    assert [(job["run_id"], job["devices"]) for job in shown["jobs"]] == [(run, "GPU:1")]
    assert {"name": "GPU", "used": 1.0, "total": 2.0} in shown["resources"]
    doctor = rlx("doctor", "local", code=None).stdout
    assert real_ray.address in doctor and "Python of Ray" in doctor and "GPU" in doctor
    (tmp_path / "go").touch()
    assert "finished" in rlx("wait", run).stdout
    real_ray.until(lambda: real_ray.state(run) == "SUCCEEDED", "Ray knows")


def test_a_job_that_waits_says_why_and_a_stop_touches_no_neighbour(
    real_ray: RayHead, rlx: Rlx, launch: Callable[..., str]
) -> None:
    use(real_ray.address)
    real_ray.submit("neighbour", "sleep 1000", gpus=2)
    real_ray.until(lambda: real_ray.free()["GPU"] == 0, "the neighbour has both")
    try:
        other = launch("other", FOREVER, "--devices", "2", home="colleague")
        run = launch("mine", FOREVER, "--devices", "1")
        seen = reaches(real_ray, rlx, run, "queued")
        assert "1 GPU" in seen["detail"] and "0 of 2" in seen["detail"]
        jobs = json.loads(rlx("queue", "local", "--json").stdout)["hosts"][0]["jobs"]
        assert {job["number"]: job["waits"] for job in jobs} == {"neighbour": False, other: True, run: True}
        rlx("stop", run)
        assert row(rlx, run)["state"] == "stopped"
        assert (real_ray.state("neighbour"), real_ray.state(other)) == ("RUNNING", "PENDING")
        again = rlx("retry", run)
        assert again.returncode == 0
        assert reaches(real_ray, rlx, run, "queued")
    finally:
        real_ray.stop("neighbour")
    # Those of attempts that were stopped while they waited begin now, and end without having begun a run.
    first = json.loads(rlx("status", "--json", other, home="colleague").stdout)["runs"]
    assert first
    rlx("stop", other, "--grace", "1", home="colleague")
    begins(real_ray, rlx, run)
    assert real_ray.until(lambda: real_ray.state(run) == "FAILED", "the job of the first attempt has ended")
    assert real_ray.state(f"{run}.2") == "RUNNING"
    rlx("stop", run, "--grace", "1")
    assert real_ray.until(lambda: real_ray.state(f"{run}.2") == "FAILED", "so has the second")


def test_a_stop_gives_a_run_its_grace(real_ray: RayHead, rlx: Rlx, launch: Callable[..., str]) -> None:
    use(real_ray.address)
    real_ray.submit("beside", "sleep 1000")
    run = launch("slow", f"{SLOW}echo up\n{FOREVER}")
    begins(real_ray, rlx, run)
    rlx("stop", run, "--grace", "60")
    assert "saved" in rlx("logs", run).stdout
    assert row(rlx, run)["state"] in ("stopped", "finished")
    assert real_ray.state("beside") == "RUNNING"
    real_ray.stop("beside")


def test_a_job_that_somebody_else_stops_says_so(real_ray: RayHead, rlx: Rlx, launch: Callable[..., str]) -> None:
    use(real_ray.address)
    run = launch("told", FOREVER)
    begins(real_ray, rlx, run)
    real_ray.stop(run)
    seen = real_ray.until(
        lambda: found if (found := row(rlx, run))["state"] in ("failed", "stopped") else {}, "it has ended"
    )
    assert "RLX585" in seen["detail"]


def test_a_dashboard_that_is_down_changes_no_state(real_ray: RayHead, rlx: Rlx, launch: Callable[..., str]) -> None:
    use(real_ray.address)
    holder = launch("holder", FOREVER, "--devices", "2")
    begins(real_ray, rlx, holder)
    waiting = launch("waiting", FOREVER, "--devices", "1")
    reaches(real_ray, rlx, waiting, "queued")
    with real_ray.without_dashboard():
        assert row(rlx, holder)["state"] == "starting"
        # What was sent a moment ago may still be on its way.
        unknown = reaches(real_ray, rlx, waiting, "unreachable")
        assert "Connection refused" in unknown["detail"]
        assert rlx("launch", "--script", __file__, "--name", "x", "--host", "local", "-y", code=None).returncode
    assert reaches(real_ray, rlx, waiting, "queued")
    assert row(rlx, holder)["state"] == "starting"


def test_a_head_that_is_killed_ends_its_runs(rlx: Rlx, launch: Callable[..., str]) -> None:
    with tempfile.TemporaryDirectory(prefix="rlx-ray-", dir="/tmp") as folder, ray_head(Path(folder)) as head:
        use(head.address)
        run = launch("orphan", FOREVER, "--devices", "1")
        begins(head, rlx, run)
        head.kill()
        seen = reaches(head, rlx, run, "failed")
        assert "RLX586" in seen["detail"]


@pytest.mark.parametrize("answer", [None, "<html>not Ray</html>"])
def test_a_wrong_address_is_refused_at_once(
    rlx: Rlx, launch: Callable[..., str], tmp_path: Path, answer: str | None
) -> None:
    (port,) = free_ports(1)
    use(f"http://127.0.0.1:{port}")

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(str(answer).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", port), Page) if answer else None
    if server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    script = tmp_path / "x.sh"
    script.write_text("true\n", encoding="utf-8")
    said = rlx("launch", "--script", str(script), "--name", "x", "--host", "local", "-y", code=None)
    if server:
        server.shutdown()
        server.server_close()
    assert said.returncode == 2 and "RLX580" in said.stderr
    assert ("no dashboard of Ray" if answer else "Connection refused") in said.stderr
