"""Read the `slurm` of a host's entry, key by key: what a job may ask for, and no other option of sbatch.

An option that rlx does not know could start a run a second time, move its files or hide it (`--requeue`, `--output`,
`--comment`, `--array`), so they are named one by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rlx.hosts.inventory.host_yaml import Reader
from rlx.model import to_jsonable
from rlx.schedulers.slurm.settings import Slurm, settings_of

_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}"
_WORDS = rf"{_WORD}(,{_WORD})*"
_NODES = r"[A-Za-z0-9_][A-Za-z0-9_.,\[\]-]{0,499}"
_TIME = r"[0-9]{1,5}|([0-9]{1,4}-)?[0-9]{1,3}(:[0-9]{2}){1,2}|[0-9]{1,4}-[0-9]{1,2}"
# A type has a letter: `910b3`.
_TYPE = r"[0-9_.-]{0,15}[A-Za-z][A-Za-z0-9_.-]{0,47}"
_MEMORY = r"[0-9]{1,9}[KMGTkmgt]?"
_FORMS: Mapping[str, tuple[str, str]] = {
    "partition": (_WORDS, "the name of a partition, or several with commas"),
    "gres": (rf"[A-Za-z][A-Za-z0-9_]{{0,31}}(:{_TYPE})?:[1-9][0-9]{{0,2}}", "the devices of a node, such as npu:8"),
    "account": (_WORD, "the name of an account"),
    "qos": (_WORD, "the name of a quality of service"),
    "time": (_TIME, "a time limit as sbatch takes it: 90 (minutes), 12:00:00 or 2-00:00:00"),
    "constraint": (r"[A-Za-z0-9_][A-Za-z0-9_.&|*\[\]()-]{0,199}", "a constraint as sbatch takes it"),
    "reservation": (_WORD, "the name of a reservation"),
    "exclude": (_NODES, "names of nodes, such as n[3-5],n9"),
    "nodelist": (_NODES, "names of nodes, such as n[3-5],n9"),
    "mem": (_MEMORY, "memory of a node, such as 500G, or 0 for all of it"),
    "cpus_per_task": (r"[1-9][0-9]{0,3}", "CPUs of a node"),
    "exclusive": (r"yes", "yes, or left out"),
    "warn": (r"[0-9]{1,4}", "seconds before the time limit at which a run is asked to end"),
}
# What people write who have written job scripts.
_MEANT = {
    "cpus": "cpus_per_task",
    "cpus-per-task": "cpus_per_task",
    "limit": "time",
    "memory": "mem",
    "nodes": "nodelist",
    "queue": "partition",
    "signal": "warn",
    "time_limit": "time",
}
_OWN = ("partition", "gres", "warn")
OPTIONS = tuple(key for key in _FORMS if key not in _OWN)
"""What `Slurm.options` may hold."""


def sbatch_options(slurm: Slurm) -> list[str]:
    """Write the settings as sbatch takes them, without partition and devices."""
    flags = ["--exclusive"] if "exclusive" in slurm.options else []
    pairs = ((key, value) for key, value in slurm.options.items() if key != "exclusive")
    return [*flags, *(f"--{key.replace('_', '-')}={value}" for key, value in pairs)]


def option_problem(key: str, text: str) -> str:
    """Say what keeps a text from being this setting."""
    if key not in _FORMS:
        return f"unknown; valid are {', '.join(_FORMS)}"
    form, meaning = _FORMS[key]
    return "" if re.fullmatch(form, text) else f"{text!r} is not {meaning}"


def slurm_problem(slurm: Slurm) -> str:
    """Say what is wrong with one that may come from a file, as a plan does."""
    values = {"partition": slurm.partition, **slurm.options, "warn": str(slurm.warn)}
    values |= {"gres": slurm.gres} if slurm.gres is not None else {}
    found = (f"slurm.{key}: {problem}" for key, text in values.items() if (problem := option_problem(key, str(text))))
    return next(found, "")


def device(settings: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return the kind of device that a job may ask for, and how many a node has."""
    return settings_of(settings).device


def words(settings: Mapping[str, Any]) -> str:
    """Say where runs are submitted to."""
    return f"the Slurm partition {settings_of(settings).partition}"


def read(reader: Reader, node: Any, key: str) -> Mapping[str, Any] | None:
    """Read the map; what is wrong with it is left with the reader."""
    slurm = _read_slurm(reader, node, key)
    return None if slurm is None else to_jsonable(slurm)


def _read_slurm(reader: Reader, node: Any, key: str) -> Slurm | None:
    if node.id != "mapping":
        reader.complain(node, key, "must be a map such as {partition: npu, gres: npu:8}")
        return None
    values = reader.section(node, key, tuple(_FORMS), _MEANT)
    texts = {name: _setting(reader, value, f"{key}.{name}", name) for name, value in values.items()}
    if "partition" not in values:
        reader.complain(node, f"{key}.partition", "required, but missing: the partition that jobs go to")
    if "partition" not in values or None in texts.values():
        return None
    options = {name: text for name, text in texts.items() if name in OPTIONS and text}
    warn = texts.get("warn")
    return Slurm(str(texts["partition"]), texts.get("gres"), options, int(warn) if warn else Slurm("").warn)


def _setting(reader: Reader, node: Any, key: str, name: str) -> str | None:
    text = reader.text(node, key)
    if text is not None and (problem := option_problem(name, text)):
        reader.complain(node, key, problem)
        return None
    return text
