"""From the command to the first line of a script on this machine: python benchmarks/script_start.py --torchx PROGRAM

`rlx run` against `bash` and `torchx run -s local_cwd`, in turns, so that a slow spell hits all of them alike. It is
wall time, beside which the load of the machine stands. torchx is installed apart:

    python -m venv /tmp/torchx && /tmp/torchx/bin/pip install torchx

Exits with 1 where the budget is broken.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

BUDGET_S = 0.3
"""What rlx may take beyond torchx: it leases devices and starts a supervisor, and the run outlives the terminal."""
TIMEOUT_S = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="how often each command runs (default: 15)")
    parser.add_argument("--torchx", metavar="PROGRAM", help="the torchx to compare with")
    options = parser.parse_args()
    programs = {"bash": ["bash"], "rlx run": [sys.executable, "-m", "rlx", "run", "--host", "local", "--name", "start"]}
    if options.torchx:
        programs["torchx run -s local_cwd"] = [options.torchx, "run", "-s", "local_cwd", "utils.sh", "bash"]
    loads = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as folder:
        rounds = [
            {name: seconds_to_first_line(words, Path(folder)) for name, words in programs.items()}
            for _ in range(options.rounds + 1)
        ]
        stop_tmux(Path(folder))
    loads.append(os.getloadavg()[0])
    # The first round only warms the caches.
    print(f"{'command':<24} {'median ms':>10} {'beyond bash':>12}")
    for name in programs:
        beyond = median(each[name] - each["bash"] for each in rounds[1:])
        print(f"{name:<24} {1000 * median(each[name] for each in rounds[1:]):>10.0f} {1000 * beyond:>12.0f}")
    print(f"load {loads[0]:.1f} to {loads[1]:.1f} on {os.cpu_count()} cores, {options.rounds} rounds")
    if not options.torchx:
        return 0
    difference = median(each["rlx run"] - each["torchx run -s local_cwd"] for each in rounds[1:])
    print(f"rlx run less torchx run: {1000 * difference:.0f} ms, budget {1000 * BUDGET_S:.0f}")
    return int(difference > BUDGET_S)


def seconds_to_first_line(words: list[str], folder: Path) -> float:
    """Return the time from the start of the command to the first line of its script."""
    mark, script = folder / "mark", folder / "script.sh"
    script.write_text(f"echo $EPOCHREALTIME >{mark}.new && mv {mark}.new {mark}\n", encoding="utf-8")
    mark.unlink(missing_ok=True)
    places = {name: str(folder / name) for name in ("RLX_HOME", "RLX_ROOT", "RLX_LEASES", "RLX_CONFIG")}
    environment = {**os.environ, **places, "RLX_TMUX_SOCKET": socket(folder), "RLX_PROJECT": os.devnull}
    begun = time.time()
    with subprocess.Popen(
        [*words, str(script)], env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        complaint = process.communicate(timeout=TIMEOUT_S)[1].decode(errors="replace")
    if process.returncode:
        sys.exit(f"{' '.join(words)} ended with {process.returncode}: {complaint}")
    while not mark.exists():
        if time.time() > begun + TIMEOUT_S:
            sys.exit(f"{' '.join(words)}: the script has not begun after {TIMEOUT_S:.0f} s: {complaint}")
        time.sleep(0.01)
    return float(mark.read_text(encoding="utf-8")) - begun


def socket(folder: Path) -> str:
    return f"rlx-bench-{folder.name}"


def stop_tmux(folder: Path) -> None:
    """End the tmux server of this benchmark, and no other."""
    subprocess.run(["tmux", "-L", socket(folder), "kill-server"], capture_output=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
