"""Compare installed versions with documented combinations and with those that are known to fail.

The tables are in versions.json, each row with its source. They list releases; a fork may differ from all of them, so an
unknown combination is only a note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rlx.model import Finding, Severity
from rlx.planning.host_requirements import hosts

_HELD = ("cann", "torch", "torch_npu", "vllm", "vllm_ascend", "transformers", "ray")
# Built for each other: the release must be the same, whatever is appended to it.
_RAY_WITH_TOKENS = (2, 52)
_TWINS = (("torch", "torch_npu", Severity.ERROR), ("vllm", "vllm_ascend", Severity.WARNING))


@cache
def tables() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(Path(__file__).with_name("versions.json").read_text(encoding="utf-8"))
    return document


def version_findings(found: Mapping[str, str]) -> Iterator[Finding]:
    """Report what is known to fail, then what is unknown. `found`: package -> version, with CANN as `cann`."""
    yield from _twins(found)
    yield from _known_bad(found)
    yield from _ray_without_tokens(found)
    # The documented combinations are those of NPU images only.
    if "torch_npu" in found:
        yield from _combination(found)


def _twins(found: Mapping[str, str]) -> Iterator[Finding]:
    for one, other, severity in _TWINS:
        if one in found and other in found and _comparable(one, found[one]) != _comparable(other, found[other]):
            yield Finding(
                "RLX541",
                severity,
                f"{one} {found[one]} and {other} {found[other]} are not built for each other",
                f"install the {other} for {one} {found[one]}",
            )


def _known_bad(found: Mapping[str, str]) -> Iterator[Finding]:
    for row in tables()["known_bad"]:
        package, partner = row["package"], row["with"]
        if package not in found or partner not in found or release(found[package]) < release(row["at_least"]):
            continue
        if row["below"] is None or release(found[partner]) < release(row["below"]):
            message = f"{package} {found[package]} with {partner} {found[partner]}: {row['why']} ({row['source']})"
            yield Finding("RLX541", Severity.WARNING, message, row["fix"])


def _ray_without_tokens(found: Mapping[str, str]) -> Iterator[Finding]:
    """Warn of a Ray without tokens, for back-ends that start one. Source: Ray 2.52, docs, ray-security/token-auth."""
    starts_ray = any(host.starts_ray and host.packages[0] in found for host in hosts())
    if starts_ray and "ray" in found and release(found["ray"])[:2] < _RAY_WITH_TOKENS:
        message = (
            f"ray {found['ray']} has no tokens (they came with 2.52): every user of this machine, and anyone else who "
            "reaches the ports of a run's Ray, can run code in it as you"
        )
        fix = "train where no other user logs in, or in a container with its own network"
        yield Finding("RLX414", Severity.WARNING, message, fix)


def _combination(found: Mapping[str, str]) -> Iterator[Finding]:
    """Compare with the nearest documented combination of the installed back-end."""
    for host in hosts():
        backend = host.packages[0] if host.packages else ""
        if backend not in found:
            continue
        row = _row(backend, found[backend]) if host.is_numbered else _likeliest(backend, found)
        if row is None:
            known = ", ".join(each["version"] for each in tables()["combinations"] if each["backend"] == backend)
            message = f"{backend} {found[backend]} is in no table of versions (known: {known})"
            yield Finding("RLX540", Severity.NOTE, message, "nothing: rlx launch records the versions")
            continue
        other = [(name, _said(row, name), found[name]) for name in _HELD if _differs(row, found, name)]
        if other:
            version = found[backend] if host.is_numbered else row["version"]
            yield _different(backend, version, row, other)


def _likeliest(backend: str, found: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return the combination of a back-end that has most in common with the installed one."""

    def unlike(row: Mapping[str, Any]) -> tuple[int, int]:
        compared = [_differs(row, found, name) for name in _HELD if name in row and name in found]
        return -compared.count(False), compared.count(True)

    return min((row for row in tables()["combinations"] if row["backend"] == backend), key=unlike, default=None)


def _row(backend: str, version: str) -> Mapping[str, Any] | None:
    rows = [row for row in tables()["combinations"] if row["backend"] == backend]
    return next((row for row in rows if release(row["version"])[:3] == release(version)[:3] != ()), None)


def _differs(row: Mapping[str, Any], found: Mapping[str, str], name: str) -> bool:
    return name in row and name in found and _comparable(name, found[name]) not in _documented(row, name)


def _documented(row: Mapping[str, Any], name: str) -> list[object]:
    """Return the documented versions; several where the sources disagree."""
    said = row[name] if isinstance(row[name], list) else [row[name]]
    return [_comparable(name, version) for version in said]


def _said(row: Mapping[str, Any], name: str) -> str:
    return " or ".join(row[name]) if isinstance(row[name], list) else str(row[name])


def _comparable(name: str, version: str) -> object:
    # CANN's release candidates differ as releases do: 8.2.RC1 is not 8.2.RC2.
    return version.lower() if name == "cann" else (*release(version), 0, 0, 0)[:3]


def _different(backend: str, version: str, row: Mapping[str, Any], other: list[tuple[str, str, str]]) -> Finding:
    """Warn where a major version differs; else a note, since the combination may work but is not documented."""
    far = any(release(expected)[:1] != release(actual)[:1] for _, expected, actual in other)
    differences = "; ".join(f"{name} {actual} instead of {expected}" for name, expected, actual in other)
    return Finding(
        "RLX541" if far else "RLX540",
        Severity.WARNING if far else Severity.NOTE,
        f"{backend} {version} is documented with another combination: {differences} ({row['source']})",
        "use an image of that combination, or test this one before a long run: rlx rehearse",
    )


def release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: 2.9.0.post2+cpu is (2, 9, 0); a name is ()."""
    numbers = re.match(r"\d{1,9}(?:\.\d{1,9})*", version, re.ASCII)
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else ()
