"""Every test gets its own rlx home, hosts, run root and lease directory: no test sees another's runs or devices."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["tests.sorting", "tests.wording", "tests.engine", "tests.rig.fixtures"]

CASES = Path(__file__).parent / "cases"
REPOSITORY = Path(__file__).parent.parent


# A commit passes its tests or does not, however busy the machine is: the examples of property tests are the same at
# every run, and untimed. `make fuzz` tries new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("fuzz", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("RLX_EXAMPLES", "same"))

# Some tests become another user of the machine, who is to read what is made here.
os.umask(0o022)

# Findings are read in English, whatever the language of the person who runs the tests.
os.environ["RLX_LANG"] = "en"

# A shell ignores Ctrl-C on behalf of what it starts in the background, and programs inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_PLACES = {"RLX_HOME": "home", "RLX_CONFIG": "config", "RLX_ROOT": "root", "RLX_LEASES": "leases"}


@pytest.fixture(autouse=True)
def private_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable, folder in _PLACES.items():
        monkeypatch.setenv(variable, str(tmp_path / folder))
    # The repository may lie below somebody's own rlx.yaml, and ssh would read the real home.
    monkeypatch.setenv("RLX_PROJECT", os.devnull)
    monkeypatch.setenv("RLX_SSH_CONFIG", os.devnull)
    monkeypatch.setenv("NO_COLOR", "1")
    # Sockets lie in one folder for all tests, so the name must tell them apart.
    socket = f"rlx-test-{os.getpid()}-{abs(hash(tmp_path))}"
    monkeypatch.setenv("RLX_TMUX_SOCKET", socket)
    yield
    stop_runs_below(tmp_path / "root" / "runs")
    server = Path(os.environ.get("TMUX_TMPDIR", "/tmp"), f"tmux-{os.getuid()}", socket)
    if server.exists():
        subprocess.run(["tmux", "-L", socket, "kill-server"], capture_output=True, check=False)
        server.unlink(missing_ok=True)


def stop_runs_below(runs: Path) -> None:
    """No test leaves a process behind, also not one that failed. The last go first: none of them is to start now."""
    from rlx.model import LOCAL
    from rlx.runs import supervisor

    for run in sorted(runs.glob("[!.]*"), reverse=True):
        supervisor.call(LOCAL, "stop", str(run), "0", accept_codes=(0, 1))
