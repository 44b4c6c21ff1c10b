"""Ask the head of a Ray cluster what a launch needs, and conclude from what its dashboard says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlx.model import Finding, Severity, Site
from rlx.planning.host_requirements import host_of
from rlx.planning.probing.probe import Probe, ProbeFacts, ProbeResults, Question, folders, last_line
from rlx.resources import payload_below
from rlx.schedulers.ray.request import RESOURCES
from rlx.schedulers.ray.settings import ray_of

_LOCAL_FILE_SYSTEMS = frozenset({"ext2/ext3", "ext4", "xfs", "btrfs", "zfs", "overlayfs", "tmpfs", "ramfs"})
_OTHER_USER = "RLX583"
_FOLDER = payload_below(Path(__file__).parent)


def questions(site: Site) -> list[Question]:
    """Ask the dashboard of the entry."""
    return [Question(RAY, ((_FOLDER / "ray_api.py").read_text(encoding="utf-8"), ray_of(site).address))]


def rows(results: ProbeResults) -> Iterator[tuple[str, str]]:
    """Return the versions on both sides, the dashboard and what the cluster has."""
    if not (found := results.host.of(RAY.name)):
        return
    address = ray_of(results.site).address
    yield "dashboard", f"{address}: {found['problem'] or 'answers'}"
    if found["problem"]:
        return
    here = _packages(results)
    own = here.get("packages", {}).get("ray") or "none"
    yield "Ray", f"{found['ray']} on the cluster, {own} in {results.wanted.python} here"
    yield "Python of Ray", f"{found['python'] or 'unknown'} on the cluster, {here.get('python') or 'unknown'} here"
    nodes = len(found["nodes"])
    free = [f"{name} {total - used:g} of {total:g}" for name, (used, total) in sorted(_shown(found).items())]
    yield "cluster", f"{nodes} node{'s' * (nodes != 1)}; free: {', '.join(free) or 'nothing known yet'}"


def findings(results: ProbeResults) -> Iterator[Finding]:
    """Return whether jobs can be submitted, and whether the cluster has what they ask for."""
    found, host = results.host.of(RAY.name), results.site.host
    if not found:
        return
    if problem := found["problem"]:
        yield _unusable(problem, results)
        return
    yield from _versions(results, found)
    yield from _devices(results, found)
    for folder in folders(results.host):
        is_local = folder["path"] == results.site.root and folder["type"] in _LOCAL_FILE_SYSTEMS
        if is_local and len(found["nodes"]) > 1:
            message = f"{results.site.root} is on {folder['type']} of the head: the other nodes may not have it"
            fix = "choose a root that all nodes see under one path: rlx hosts add … --root"
            yield Finding("RLX587", Severity.WARNING, message, fix, host)


def _unusable(problem: str, results: ProbeResults) -> Finding:
    host, address = results.site.host, ray_of(results.site).address
    if problem.startswith(_OTHER_USER):
        fix = "log in as the user who started the cluster, or start one of your own"
        return Finding("RLX583", Severity.ERROR, problem.removeprefix(_OTHER_USER).strip(), fix, host)
    message = problem if problem.startswith("Ray at ") else f"Ray at {address} cannot be asked: {problem}"
    fix = f"curl {address}/api/version, on the host; correct ray in the entry (rlx hosts show {host} names the file)"
    return Finding("RLX580", Severity.ERROR, message, fix, host)


def _versions(results: ProbeResults, found: ProbeFacts) -> Iterator[Finding]:
    """Ray joins a cluster of the very same versions of Ray and of Python only."""
    here = _packages(results)
    if "packages" not in here or not _joins(results):
        return
    pairs = (
        ("Ray", found["ray"], here["packages"].get("ray") or ""),
        ("Python", found["python"], here["python"]),
    )
    if other := [f"{name} {theirs} and {own or 'none'}" for name, theirs, own in pairs if theirs and theirs != own]:
        message = f"the cluster and {here['executable']} have different versions: {', '.join(other)}"
        fix = "set backend.python to the interpreter that started the cluster, or install its versions"
        yield Finding("RLX581", Severity.ERROR, message, fix, results.site.host)


def _devices(results: ProbeResults, found: ProbeFacts) -> Iterator[Finding]:
    wanted = results.wanted
    if not found["usage"] or not wanted.devices or (wanted.device == "cpu" and not _joins(results)):
        return
    name = RESOURCES.get(wanted.device or "", "GPU")
    needed = wanted.devices * wanted.nodes
    total = found["usage"].get(name, (0, 0))[1]
    if total < needed:
        message = f"a run asks for {needed} {name}, and the cluster has {total:g}"
        extra = "; ray start --num-gpus=N gives a cluster without GPUs as many" if wanted.device == "cpu" else ""
        fix = f"use a smaller layout, or start nodes that have them{extra}"
        yield Finding("RLX582", Severity.ERROR, message, fix, results.site.host)


def _joins(results: ProbeResults) -> bool:
    """Return whether the trainer of the recipe joins the cluster."""
    return results.wanted.backend is not None and host_of(results.wanted.backend).joins_ray


def _shown(found: ProbeFacts) -> dict[str, tuple[float, float]]:
    return {name: pair for name, pair in found["usage"].items() if name in ("CPU", *RESOURCES.values())}


def _packages(results: ProbeResults) -> ProbeFacts:
    return results.environment.of("packages") if results.environment else {}


def parse_ray(text: str) -> dict[str, Any]:
    """Parse the versions, what is used and the nodes; `problem`: why that is not known."""
    facts: dict[str, Any] = {"problem": "", "ray": "", "python": "", "usage": {}, "nodes": []}
    try:
        said = json.loads(last_line(text))
        facts |= {name: str(said[name] or "") for name in ("ray", "python")}
        facts["usage"] = {name: (float(used), float(total)) for name, (used, total) in said["usage"].items()}
        facts["nodes"] = [str(address) for address in said["nodes"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        facts["problem"] = last_line(text) or "no answer"
    return facts


RAY = Probe("ray", _FOLDER / "probe.sh", parse_ray, limit_s=25)
