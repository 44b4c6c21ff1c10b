"""Find the shell script in the file of another launcher: SkyPilot, dstack, Kubernetes, and the head of a Slurm script.

Nothing but the script is a launch. What the launcher sets for the first node, from which people start a training, is
put in front of it as variables, and each line keeps its number in the file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from rlx.yaml_reader.reader import YamlNode

_DOCUMENT = re.compile(r"^---(?:\s.*)?$", re.MULTILINE)
_SBATCH = re.compile(r"^#SBATCH\s+(--?[\w-]+)(?:[=\s]\s*(\S+))?", re.MULTILINE)
_SLURM: Mapping[str, tuple[str, ...]] = {
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "cpus-per-task": ("SLURM_CPUS_PER_TASK",),
}
_SHORT = {"-N": "nodes", "-c": "cpus-per-task"}
_SHELLS = ("bash", "sh", "zsh", "dash")
_NULLS = ("", "~", "null", "Null", "NULL")
_MOST_DEPTH = 12
_MOST_DOCUMENTS = 50


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """The script that a launcher starts on its first node, "" where it has none; `place` is where it stands."""

    launcher: str
    place: str
    script: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Document:
    """A document of a file, which begins in line `begin`, from 0."""

    root: YamlNode
    begin: int

    def script(
        self, nodes: Sequence[YamlNode], variables: Mapping[str, str], exported: Mapping[str, str | None]
    ) -> str:
        """Return the texts of the nodes, each in its line of the file, after what the launcher sets."""
        lines: list[str] = []
        for node in nodes:
            first = self.begin + node.line - 1
            written = str(node.value).splitlines() or [""]
            # The text of a block begins below its `|`.
            at = first + (not node.is_plain and node.end_mark.line > node.start_mark.line and len(written) > 0)
            at = max(at, len(lines))
            lines += [""] * (at - len(lines)) + written
        return f"{_assigned(variables, exported)}{chr(10).join(lines)}\n"


def launch_file(text: str) -> LaunchFile | None:
    """Return what another launcher's YAML starts; None for a file of no launcher. Raises YamlError."""
    empty = None
    for document in _documents(text):
        found = next(filter(None, (find(document) for find in (_skypilot, _dstack, _ray_job, _containers))), None)
        if found and found.script:
            return found
        empty = empty or found
    return empty


def with_slurm(text: str) -> str:
    """Put the variables of a job in front of a script whose `#SBATCH` lines say their values."""
    found: dict[str, str] = {}
    for option, value in _SBATCH.findall(text):
        name = _SHORT.get(option, option.lstrip("-"))
        number = value.rpartition(":")[2]
        if name == "gres" and value.startswith("gpu"):
            name = "gpus-per-node"
        if number.isdecimal():
            found |= dict.fromkeys(_SLURM.get(name, ()), number)
    return f"{_assigned({'SLURM_NODEID': '0', 'SLURM_PROCID': '0', **found}, {})}{text}" if found else text


def _assigned(variables: Mapping[str, str], exported: Mapping[str, str | None]) -> str:
    """Assign what the launcher sets, and export what the file sets or hands on (None), within the first line."""
    pairs = [f"{name}={shlex.quote(value)}; " for name, value in variables.items()]
    for name, value in exported.items():
        # A name that is none may not become a command.
        if name.isascii() and name.isidentifier():
            pairs.append(f'export {name}="${name}"; ' if value is None else f"export {name}={shlex.quote(value)}; ")
    return "".join(pairs)


def _documents(text: str) -> Iterator[_Document]:
    begins = [0, *(match.end() for match in _DOCUMENT.finditer(text))][:_MOST_DOCUMENTS]
    for begin, end in zip(begins, [*begins[1:], len(text)], strict=True):
        # The line of the next mark belongs to no document.
        part = _DOCUMENT.sub("", text[begin:end])
        root = _composed(part)
        if root is not None and root.id == "mapping":
            yield _Document(root, text.count("\n", 0, begin))


def _skypilot(document: _Document) -> LaunchFile | None:
    run, root = _at(document.root, "run"), document.root
    if not _is_text(run) or not any(_at(root, key) for key in ("setup", "resources", "num_nodes", "envs", "workdir")):
        return None
    devices = _last_count(_plain(_at(root, "resources", "accelerators")))
    variables = {
        "SKYPILOT_NODE_RANK": "0",
        "SKYPILOT_NUM_NODES": str(_plain(_at(root, "num_nodes")) or 1),
        **({"SKYPILOT_NUM_GPUS_PER_NODE": devices} if devices else {}),
    }
    exported = {**_pairs(_plain(_at(root, "envs"))), **_pairs(_plain(_at(root, "secrets")))}
    left = tuple(key for key in ("setup", "file_mounts", "workdir") if _at(root, key))
    return LaunchFile("SkyPilot", "run", document.script([run], variables, exported), left)


def _dstack(document: _Document) -> LaunchFile | None:
    root = document.root
    commands = _at(root, "commands")
    if (
        commands is None
        or commands.id != "sequence"
        or _plain(_at(root, "type")) not in ("task", "dev-environment", "service")
    ):
        return None
    nodes = str(_plain(_at(root, "nodes")) or 1)
    devices = _last_count(_plain(_at(root, "resources", "gpu")))
    variables = {"DSTACK_NODE_RANK": "0", "DSTACK_NODES_NUM": nodes}
    if devices:
        variables |= {"DSTACK_GPUS_PER_NODE": devices}
        variables |= {"DSTACK_GPUS_NUM": str(int(devices) * int(nodes))} if nodes.isdecimal() else {}
    texts = [node for node in commands.value if _is_text(node)]
    script = document.script(texts, variables, _pairs(_plain(_at(root, "env"))))
    return LaunchFile("dstack", "commands", script)


def _ray_job(document: _Document) -> LaunchFile | None:
    root, kind = document.root, _plain(_at(document.root, "kind"))
    if kind not in ("RayJob", "RayCluster", "RayService"):
        return None
    entrypoint = _at(root, "spec", "entrypoint")
    if not _is_text(entrypoint):
        return LaunchFile(f"KubeRay's {kind}", "spec.entrypoint", "")
    environment = _plain(_runtime_env(_at(root, "spec", "runtimeEnvYAML")))
    exported = _pairs(environment.get("env_vars")) if isinstance(environment, Mapping) else {}
    return LaunchFile("KubeRay's RayJob", "spec.entrypoint", document.script([entrypoint], {}, exported))


def _runtime_env(written: YamlNode | None) -> YamlNode | None:
    return _composed(written.value) if written is not None and _is_text(written) else None


def _composed(text: str) -> YamlNode | None:
    """Read a document whose values are all texts, as a shell has them, or None. Raises YamlError."""
    from rlx.yaml_reader.hydra import MOST_BYTES
    from rlx.yaml_reader.reader import YamlError, YamlForm, YamlProblem, compose

    if len(text) > MOST_BYTES:
        raise YamlError([YamlProblem(1, "", f"is larger than {MOST_BYTES >> 20} MiB, so it starts no training")])
    form = YamlForm("launch", "launch file", most_nodes=20_000, most_levels=64, scalar=_word)
    root, problems = compose(text, form)
    if problems:
        raise YamlError(problems)
    return root


def _word(word: str) -> str | None:
    return None if word in _NULLS else word


def _containers(document: _Document) -> LaunchFile | None:
    """Take the first container with a command, of a Job, a PyTorchJob or whatever else has some."""
    kind = _plain(_at(document.root, "kind"))
    if not isinstance(kind, str) or _at(document.root, "apiVersion") is None:
        return None
    for container in _found_containers(document.root, 0):
        words = [node for key in ("command", "args") for node in _items(_at(container, key))]
        if not words:
            continue
        listed = _plain(_at(container, "env"))
        exported = _pairs({each["name"]: each.get("value") for each in listed or () if _is_variable(each)})
        texts = [str(word.value) for word in words]
        is_shell = texts[0].rpartition("/")[2] in _SHELLS and len(texts) > 2 and texts[1].endswith("c")
        if is_shell:
            script = document.script(words[2:3], {}, exported)
        else:
            line = "\n" * (document.begin + words[0].line - 1)
            script = f"{_assigned({}, exported)}{line}{shlex.join(texts)}\n"
        return LaunchFile(f"Kubernetes ({kind})", "containers", script)
    return LaunchFile(f"Kubernetes ({kind})", "containers", "")


def _found_containers(node: YamlNode, depth: int) -> Iterator[YamlNode]:
    if depth > _MOST_DEPTH:
        return
    if node.id == "sequence":
        for item in node.value:
            yield from _found_containers(item, depth + 1)
    elif node.id == "mapping":
        for key, value in node.value:
            if key.value == "containers" and value.id == "sequence":
                yield from (item for item in value.value if item.id == "mapping")
            else:
                yield from _found_containers(value, depth + 1)


def _is_variable(item: object) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("name"), str)


def _at(node: YamlNode | None, *path: str) -> YamlNode | None:
    for key in path:
        if node is None or node.id != "mapping":
            return None
        node = next((value for name, value in node.value if name.value == key), None)
    return node


def _plain(node: YamlNode | None) -> Any:
    from rlx.yaml_reader.hydra import plain

    return None if node is None else plain(node)


def _is_text(node: YamlNode | None) -> TypeGuard[YamlNode]:
    return node is not None and node.id == "scalar" and isinstance(node.value, str) and bool(node.value.strip())


def _items(node: YamlNode | None) -> list[YamlNode]:
    if node is None:
        return []
    return [each for each in node.value if each.id == "scalar"] if node.id == "sequence" else [node]


def _pairs(written: Any) -> dict[str, str | None]:
    """Read variables as a map, or a list of NAME=VALUE; one without a value is None: who launches has it."""
    if isinstance(written, list):
        parted = (each.partition("=") for each in written if isinstance(each, str))
        return {name: value if equals else None for name, equals, value in parted}
    pairs = written.items() if isinstance(written, Mapping) else ()
    return {str(name): value for name, value in pairs if not isinstance(value, (list, dict))}


def _last_count(written: Any) -> str:
    """Return the number of devices in `H100:8`, `{H100: 8}`, `80GB:8`, `{name: …, count: 8}` or 8; "" if it is open."""
    if isinstance(written, Mapping):
        written = written.get("count", next(iter(written.values()), None))
    number = written.rpartition(":")[2] if isinstance(written, str) else ""
    return number if number.isdecimal() else ""
