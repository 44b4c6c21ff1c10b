"""rlx doctor: check a host for problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.options import HOSTS, RECIPES
from rlx.cli.frame.output import narrate, print_json, print_text
from rlx.cli.frame.site_options import TrustOption
from rlx.evidence.verdict import counted
from rlx.model import Finding, Severity, finding_text
from rlx.terminal_text import printable_lines

if TYPE_CHECKING:
    from rlx.hosts.clock import Clock
    from rlx.planning.probing.probe import ProbeFacts, ProbeResults, Side

_GIB_IN_KIB = 1024**2
_MOST_NAMES = 8


def doctor(
    host: Annotated[str | None, typer.Argument(help="Host. Default: this machine.", autocompletion=HOSTS)] = None,
    container: Annotated[str | None, typer.Option(help="The container that runs would go into.")] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="Also check what this recipe needs: back-end, devices, model, data.", autocompletion=RECIPES),
    ] = None,
    trust: TrustOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Check a host for problems.

    Devices, software, disks and what would make a run fail, over one connection; nothing is left on the host. With a
    recipe, the findings are those of rlx plan and rlx launch, with their exit codes: 2 if an error is the recipe's own,
    5 for any other; 4 if the host cannot be reached.
    """
    from rlx.api.doctor import examine_host

    where = f"{host or 'local'}, container {container}" if container else host or "local"
    narrate(f"checking {where} …")
    checkup = examine_host(host or "local", container, recipe, trust=trust)
    for note in checkup.notes:
        narrate(f"rlx: warning: {note}")
    if as_json:
        print_json(document(checkup.results, checkup.findings))
    else:
        print_text(doctor_text(checkup.results, checkup.findings))
    if (code := checkup.exit_code()) is not None:
        raise typer.Exit(code)


def doctor_text(results: ProbeResults, findings: Sequence[Finding]) -> str:
    """Return the number of problems, the findings, worst first, then the facts of the host and of the container."""
    name = results.site.host
    host = [
        *_machine(results.host),
        *_clock(results.clock),
        *_docker(results),
        *_npus(results.host),
        *_scheduler(results),
    ]
    lines = [f"host {name}", *_indented(host)]
    if results.inside:
        inside = [*_machine(results.inside), *_npus(results.inside)]
        lines += [results.where, *_indented(inside)]
    if results.environment:
        lines += [f"training environment in {results.where}", *_indented([*_python(results.environment)])]
    severities = [finding.severity for finding in findings]
    counts = [counted(severities.count(one), one.value) for one in Severity if one in severities]
    headline = f"{results.where}: {', '.join(counts) or 'no problem found'}"
    # Names of processes and containers were chosen by others; none of them may control this terminal.
    shown = (line.encode(errors="replace") for line in [headline, *_findings(findings), "", *lines])
    return "\n".join(" ".join(printable_lines(line)) for line in shown)


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        yield from (f"  {line}" for line in finding_text(finding).split("\n"))


def document(results: ProbeResults, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the answer for --json: facts of the host and of the container by probe; keys name the units of sizes."""
    inside = results.inside
    return {
        "host": results.site.host,
        "container": results.site.container,
        "clock_ahead_s": [results.clock.least, results.clock.most] if results.clock else None,
        "facts": {"host": results.host.facts, "container": inside.facts if inside else None},
        "unanswered": {"host": results.host.silent, "container": inside.silent if inside else None},
        "findings": findings,
    }


def _indented(rows: Sequence[tuple[str, str]]) -> list[str]:
    return [f"  {label:<14} {value}" for label, value in rows if value]


def _machine(side: Side) -> Iterator[tuple[str, str]]:
    found = side.of("machine")
    if not found:
        return
    user = f"{found.get('user', '?')} (uid {found['uid']}), groups {', '.join(found['groups'])}"
    yield "user", user
    yield "system", ", ".join(str(found[key]) for key in ("distribution", "kernel", "arch") if found.get(key))
    yield "CPUs", f"{found['cpus']}, load {' '.join(map(str, found['load']))}"
    yield "memory", f"{_gib(found['memory_free_kib'])} of {_gib(found['memory_kib'])} free"
    for folder in side.of("disk").get("paths", ()):
        free = f"{_gib(folder['free_kib'])} of {_gib(folder['total_kib'])} free"
        yield "disk", f"{folder['path']}: {free}, {folder['type'] or 'unknown file system'} at {folder['mount']}"
    processes = side.of("processes")
    if processes:
        total, zombies = processes["total"], processes["zombies"]
        yield "processes", f"{total}, {zombies} of them zombies" if total else "cannot be counted (is awk installed?)"
    if side.of("tools"):
        yield "tmux", side.of("tools")["tmux_version"] or "none"


def _clock(clock: Clock | None) -> Iterator[tuple[str, str]]:
    if clock:
        yield (
            "clock",
            f"{(clock.least + clock.most) / 2:+.1f} s from this machine, ± {(clock.most - clock.least) / 2:.1f} s",
        )


def _scheduler(results: ProbeResults) -> Iterator[tuple[str, str]]:
    from rlx.schedulers.protocol import login_node_of

    batch = results.site.batch
    return login_node_of(batch).rows(results) if batch else iter(())


def _docker(results: ProbeResults) -> Iterator[tuple[str, str]]:
    found = results.host.of("docker")
    if found:
        server = found["server"] or f"cannot be used ({found['problem']})"
        yield "Docker", server if found["problem"] else f"{server}, running: {_names(found['running'])}"
    container = results.host.of("container")
    if container and "error" not in container:
        name = container.get("name", "").removeprefix("/")
        yield "container", f"{name}, {container.get('state')}, id {container.get('id', '')[:12]}"
        digest = (container["digests"] or [container.get("image_id", "")])[0]
        yield "image", f"{container.get('image')} ({digest})"
        yield "mounts", ", ".join(f"{mount['source']} → {mount['destination']}" for mount in container["mounts"])
        shm = f"{container.get('shm_bytes', 0) / 1024**2:.0f} MiB"
        yield "settings", f"shm {shm}, ipc {container.get('ipc')}, restart {container.get('restart') or 'no'}"


def _names(containers: Sequence[ProbeFacts]) -> str:
    names = [str(one["name"]) for one in containers]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return (", ".join(names[:_MOST_NAMES]) or "no container") + more


def _npus(side: Side) -> Iterator[tuple[str, str]]:
    found, ascend = side.of("npu_smi"), side.of("ascend")
    versions = [f"{name} {ascend[name]}" for name in ("driver", "firmware") if ascend.get(name)]
    yield "NPU driver", ", ".join(versions)
    numbers = side.of("devices").get("numbers", ())
    yield "NPU nodes", f"{len(numbers)} (/dev/davinci{numbers[0]}–{numbers[-1]})" if numbers else ""
    gpus = side.of("devices").get("gpus", ())
    yield "GPU nodes", f"{len(gpus)} (/dev/nvidia{gpus[0]}–{gpus[-1]})" if gpus else ""
    processes = found.get("processes") or []
    for chip in found.get("chips") or ():
        held = [one for one in processes if (one["npu"], one["chip"]) == (chip["npu"], chip["chip"] or 0)]
        yield f"NPU {chip['device']}", _chip(chip, held)


def _chip(chip: ProbeFacts, held: Sequence[dict[str, Any]]) -> str:
    names = ", ".join(f"{one['name'] or 'process'} {one['pid']}" for one in held)
    return f"{chip['name']} {chip['health']}, {chip['used_mib']} of {chip['total_mib']} MiB, {names or 'no process'}"


def _python(side: Side) -> Iterator[tuple[str, str]]:
    found = side.of("packages")
    yield "CANN", str(side.of("ascend").get("cann") or "")
    if "error" in found:
        yield "Python", f"none: {found['error']}"
        return
    yield "Python", f"{found.get('python')} ({found.get('executable')})"
    yield "packages", ", ".join(f"{name} {version}" for name, version in found.get("packages", {}).items())
    accelerator = side.of("accelerator")
    if "available" in accelerator:
        yield "torch.npu", f"{'available' if accelerator['available'] else 'not available'}, {accelerator.get('count')}"
    for path in side.of("paths").get("paths", ()):
        yield str(path["role"]), f"{path['path']}: {_contents(path)}"


def _contents(path: ProbeFacts) -> str:
    if path["kind"] is None:
        return "not there"
    parts = [f"{path['weight_files']} weight files"] if "weight_files" in path else []
    parts += [f"{path['rows']} rows"] if "rows" in path else []
    parts += [f"{path['bytes'] / 1024**2:.1f} MiB"] if "bytes" in path else []
    return ", ".join([*parts, *(["columns " + " ".join(path["columns"])] if "columns" in path else [])])


def _gib(kib: int | None) -> str:
    return "?" if kib is None else f"{kib / _GIB_IN_KIB:.1f} GiB"
