"""Keep the `ray` commands of a user's script within its run.

    python contained_ray.py RAY PROCESSES COMMAND...

RAY is the real program, PROCESSES the script's own. A cluster that the script starts gets the run's ports, temporary
folder, token and devices; an address that the script names leads to it, if it means the ports that the script chose or
those that Ray would have taken. `ray stop` ends this run's Ray. A job gets the id of the run.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

# The ports that Ray takes where the script names none.
PORTS = {"--port": 6379, "--dashboard-port": 8265, "--ray-client-server-port": 10001}
# Of these Ray chooses free ones itself where it is not told, or told 0.
FREE = ("--node-manager-port", "--object-manager-port", "--metrics-export-port", "--dashboard-agent-grpc-port")
DROPPED = (*FREE, "--runtime-env-agent-port", "--redis-shard-ports", "--worker-port-list", "--temp-dir")
# As in launch.sh; below the ports that Linux assigns automatically.
FIRST_PORT, MOST_PORTS = 20000, 12000
DEVICES = {"cuda": ("CUDA_VISIBLE_DEVICES", "--num-gpus"), "npu": ("ASCEND_RT_VISIBLE_DEVICES", "--resources")}
# What `ray stop` looks for (RAY_PROCESSES of ray/_private/ray_constants.py): in names of processes, and in commands.
NAMES = ("raylet", "plasma_store", "gcs_server")
COMMANDS = (
    *("monitor.py", "ray.util.client.server", "default_worker.py", "setup_worker.py", "ray::", "log_monitor.py"),
    *("reporter.py", "dashboard/agent.py", "dashboard/dashboard.py", "runtime_env/agent/main.py"),
    *("ray_process_reaper.py", "io.ray.runtime.runner.worker.DefaultWorker"),
)
STOP_GRACE_S = 16.0
POLL_S = 0.1


class Refused(Exception):
    """The command would reach a Ray that is not this run's."""


def main(real: str, own: set[int], words: list[str]) -> None:
    general, words = parted(words)
    command = words[0] if words else ""
    folder = Path(os.environ["RLX_RAY_TMP"])
    try:
        if "--help" in words:
            pass
        elif command == "start":
            words = started(words, folder, own)
        elif command == "stop":
            stop(words, folder, own)
        elif command == "job" and words[1:2] == ["submit"]:
            words = submitted(real, words, folder, own)
        else:
            words = directed(words, folder, own)
    except Refused as refusal:
        record(words, f"refused: {refusal}")
        sys.exit(f"ray: {refusal}")
    os.execv(real, [real, *general, *words])


def parted(words: list[str]) -> tuple[list[str], list[str]]:
    """Part the options of `ray` itself from its command."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("--logging-level", "--logging-format") else 1
    return words[:at], words[at:]


# ---- ray start -------------------------------------------------------------------------------------------------------


def started(words: list[str], folder: Path, own: set[int]) -> list[str]:
    """Return the command with the run's ports, folder and devices."""
    done = []
    os.environ["RAY_TMPDIR"] = str(folder)
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(folder / "token"))
    os.environ.pop("RAY_ADDRESS", None)
    if devices := leased_devices(words):
        done.append(devices)
    if "--head" in words:
        asked = {name: number(option(words, name)) or usual for name, usual in PORTS.items()}
        found = iter(free_ports(len(PORTS)))
        ports = {name: next(found) for name in PORTS}
        for cluster in clusters(folder):
            # Again at the same port: Ray itself refuses that.
            if cluster["asked"]["--port"] == asked["--port"] and listeners(own) & set(cluster["ports"].values()):
                ports = cluster["ports"]
        host = option(words, "--dashboard-host") or "127.0.0.1"
        cluster = {"asked": asked, "ports": ports, "host": "127.0.0.1" if host in ("0.0.0.0", "::") else host}
        (folder / "contained.json").write_text(json.dumps([*clusters(folder), cluster]), encoding="utf-8")
        moved = ", ".join(f"{asked[name]} is {ports[name]}" for name in PORTS)
        done.insert(0, f"starts this run's own Ray, in {folder}/ray: port {moved}")
    else:
        ports = {}
        named = option(words, "--address")
        if named is not None:
            words, told = pointed(words, folder, own, "--port")
            done.append(told or f"joins {named}, as the script says")
    for name in (*DROPPED, *ports):
        words = without(words, name)
    # 0 for a port that any number will do for: the agent's is 52365 otherwise, those of workers 10002 to 19999.
    chosen = {**ports, "--min-worker-port": 0, "--max-worker-port": 0, "--dashboard-agent-listen-port": 0}
    for name in chosen:
        words = without(words, name)
    words = [words[0], *(f"{name}={port}" for name, port in chosen.items()), *words[1:]]
    record(["ray", "start", *(["--head"] if ports else [])], "; ".join(done))
    return words


def leased_devices(words: list[str]) -> str:
    """Offer no other devices than those of the run's lease; say what is changed for that. `words` is changed."""
    variable, option_name = DEVICES.get(os.environ.get("RLX_DEVICE_KIND", ""), ("", ""))
    lease = [text for text in os.environ.get("RLX_DEVICES", "").split(",") if text]
    if not variable or not lease:
        return ""
    done = []
    visible = os.environ.get(variable)
    if visible is None or not set(visible.split(",")) <= {*lease, ""}:
        os.environ[variable] = ",".join(lease)
        done.append(f"{variable}={os.environ[variable]} in place of {visible}")
    most = len([text for text in os.environ[variable].split(",") if text])
    given = option(words, option_name)
    if option_name == "--num-gpus" and (number(given) or 0) > most:
        words[:] = [*without(words, option_name), f"{option_name}={most}"]
        done.append(f"offers {most} of {given} GPUs")
    elif option_name == "--resources" and given:
        with suppress(ValueError, AttributeError, TypeError):
            offered = json.loads(given)
            if offered.get("NPU", 0) > most:
                words[:] = [*without(words, option_name), f"{option_name}={json.dumps({**offered, 'NPU': most})}"]
                done.append(f"offers {most} of {offered['NPU']} NPUs")
    return "; ".join(done)


def free_ports(count: int) -> list[int]:
    """Find ports that are free now. Runs begin at different ones, so that two that start together seldom meet."""
    found: list[int] = []
    begin = int(hashlib.sha256(os.environ["RLX_RUN"].encode()).hexdigest(), 16)
    for step in range(MOST_PORTS):
        port = FIRST_PORT + (begin + step) % MOST_PORTS
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            found.append(port)
        if len(found) == count:
            return found
    raise Refused(f"no {count} ports from {FIRST_PORT} on are free")


# ---- where a command goes --------------------------------------------------------------------------------------------


def clusters(folder: Path) -> list[dict[str, Any]]:
    """Return what the script has started, the newest last."""
    try:
        return list(json.loads((folder / "contained.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return []


def directed(words: list[str], folder: Path, own: set[int]) -> list[str]:
    """Return a command that asks a Ray, with the address of the run's where the script means that."""
    if words[:1] == ["job"] or option(words, "--address") is not None:
        return pointed(words, folder, own, "--dashboard-port" if words[:1] == ["job"] else "--port")[0]
    if address := current(folder):
        os.environ["RAY_ADDRESS"] = address
    return words


def pointed(words: list[str], folder: Path, own: set[int], port: str) -> tuple[list[str], str]:
    """Return the command with the address that it is to go to, and what was changed; "" for nothing.

    Ray's own order of what names an address: RAY_API_SERVER_ADDRESS, RAY_ADDRESS, the option.
    """
    server, gcs = (os.environ.pop(name, "") for name in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS"))
    # rlx itself has set the second one to these.
    named = server or (gcs if gcs not in ("local", current(folder)) else "") or option(words, "--address")
    address = resolved(named, folder, own, port)
    before = words.index("--") if "--" in words else len(words)
    head = without(words[:before], "--address")
    at = 2 if words[0] == "job" else 1
    told = "" if address == named else f"goes to this run's Ray at {address}"
    return [*head[:at], f"--address={address}", *head[at:], *words[before:]], told


def resolved(named: str | None, folder: Path, own: set[int], port: str) -> str:
    """Return the address of the run's Ray, or the one that the script names if it is no neighbour's. Raises Refused."""
    found = clusters(folder)
    if named in (None, "", "auto", "local"):
        if not found:
            raise Refused("this run has started no Ray: another one is another user's. Start one with ray start --head")
        return address_of(found[-1], folder, port)
    host, _, digits = named.rpartition("://")[2].rstrip("/").rpartition(":")
    if not is_here(host.strip("[]")) or number(digits) is None:
        return named
    for cluster in reversed(found):
        if number(digits) in (*cluster["asked"].values(), *cluster["ports"].values()):
            return address_of(cluster, folder, port)
    if int(digits) not in listeners(own):
        raise Refused(f"{named} is no Ray that this run has started. Start one with ray start --head")
    return named


def address_of(cluster: dict[str, Any], folder: Path, port: str) -> str:
    if port == "--port":
        return current(folder) or f"127.0.0.1:{cluster['ports'][port]}"
    return f"http://{cluster['host']}:{cluster['ports'][port]}"


def current(folder: Path) -> str:
    """Return the address that `ray start` has written, of its newest cluster."""
    try:
        return (folder / "ray" / "ray_current_cluster").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def is_here(host: str) -> bool:
    """Tell whether it is an address of this machine."""
    with suppress(OSError):
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(address)
            return True
    return False


def listening() -> list[tuple[int, str]]:
    """Return the ports that programs listen on, each with the number of its socket."""
    found = []
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/net", table).read_text(encoding="utf-8").splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A":
                    found.append((int(fields[1].rpartition(":")[2], 16), fields[9]))
    return found


def listeners(own: set[int]) -> set[int]:
    """Return the ports that these processes listen on."""
    sockets = set()
    for pid in own:
        with suppress(OSError):
            for link in Path("/proc", str(pid), "fd").iterdir():
                with suppress(OSError):
                    sockets.add(os.readlink(link))  # noqa: PTH115 - Python 3.8 has no Path.readlink
    return {port for port, number in listening() if f"socket:[{number}]" in sockets}


# ---- ray job submit --------------------------------------------------------------------------------------------------


def submitted(real: str, words: list[str], folder: Path, own: set[int]) -> list[str]:
    """Return the command for the run's Ray, with the id of the run. It is written down before Ray hears of it."""
    named = option(words, "--submission-id") or option(words, "--job-id")
    words, told = pointed(words, folder, own, "--dashboard-port")
    attempt = Path(os.environ["RLX_ATTEMPT_DIR"])
    run = os.environ["RLX_RUN"]
    before = sum(count_lines(path) for path in attempt.parent.glob("*/ray_jobs.jsonl"))
    id = named or (run if before == 0 else f"{run}-{before + 1}")
    if named is None:
        words = [*words[:2], f"--submission-id={id}", *words[2:]]
    address = str(option(words, "--address"))
    is_own = any(address == address_of(each, folder, "--dashboard-port") for each in clusters(folder))
    job = {"submission_id": id, "address": address, "at": int(time.time()), "ray": real, "own": is_own}
    job["wait"] = "--no-wait" not in (words[: words.index("--")] if "--" in words else words)
    with (attempt / "ray_jobs.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(job) + "\n")
    record(["ray", "job", "submit"], f"{told or f'goes to {address}, as the script says'}; its id is {id}")
    return words


def count_lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


# ---- ray stop --------------------------------------------------------------------------------------------------------


def stop(words: list[str], folder: Path, own: set[int]) -> NoReturn:
    """End this run's Ray, as `ray stop` ends every Ray of the machine."""
    force = bool({"-f", "--force"} & set(words))
    text = option(words, "--grace-period") or option(words, "-g")
    mine = {pid for pid in own if is_ray(pid)}
    others = sum(is_ray(pid) for pid in all_processes()) - len(mine)
    for pid in mine:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL if force else signal.SIGTERM)
    deadline = time.monotonic() + (number(text) or STOP_GRACE_S)
    while any(map(is_ray, mine)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    for pid in filter(is_ray, mine):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    for name in ("contained.json", "ray/ray_current_cluster"):
        with suppress(OSError):
            (folder / name).unlink()
    left = f"; {others} Ray processes of others left alone" if others else ""
    record(["ray", "stop"], f"ended {len(mine)} processes of this run's Ray{left}")
    print(f"Stopped all {len(mine)} Ray processes." if mine else "Did not find any active Ray processes.")
    sys.exit(0)


def all_processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def is_ray(pid: int) -> bool:
    """Tell whether it is a process of a Ray that still runs."""
    try:
        name, _, rest = Path("/proc", str(pid), "stat").read_text(errors="replace", encoding="utf-8").rpartition(")")
        command = Path("/proc", str(pid), "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return False
    if rest.split()[0] in "ZX":
        return False
    return any(each in name for each in NAMES) or ("ray" in command and any(each in command for each in COMMANDS))


# ---- words and records -----------------------------------------------------------------------------------------------


def option(words: list[str], name: str) -> str | None:
    """Return the value of an option before `--`, the last one given; None without it."""
    value = None
    for i, word in enumerate(words):
        if word == "--":
            break
        if word == name and i + 1 < len(words):
            value = words[i + 1]
        elif word.startswith(f"{name}="):
            value = word.partition("=")[2]
    return value


def without(words: list[str], name: str) -> list[str]:
    """Return the words without an option and its value."""
    left: list[str] = []
    skips = False
    for i, word in enumerate(words):
        if word == "--":
            return left + words[i:]
        if not skips and word != name and not word.startswith(f"{name}="):
            left.append(word)
        skips = not skips and word == name
    return left


def number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def record(words: list[str], done: str) -> None:
    """Write to the log and to the record of the run. No values of options: they may hold secrets."""
    command = " ".join(["ray", *(word for word in words if word.isalpha() and word != "ray")][:3])
    attempt = Path(os.environ["RLX_ATTEMPT_DIR"])
    row = {"kind": "intervention", "at": int(time.time()), "command": command, "done": done}
    with suppress(OSError):
        with (attempt / "log").open("a", encoding="utf-8") as log:
            log.write(f"rlx: {command}: {done}\n")
        with (attempt / "events" / "interventions.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], {int(pid) for pid in sys.argv[2].split()}, sys.argv[3:])
