"""A file of hosts: `hosts.yaml` of a user, `rlx.yaml` of a project. Both have the same form.

    hosts:
      a3:
        ssh: user@npu-host-1        # or ssh://user@host:port, or a name of the user's ssh config
        transport: openssh          # or paramiko
        container: verl             # runs go into this container, which already runs
        root: /data/me/rlx          # folder of the runs, as the host writes it
        device: {kind: npu, count: 8}
        setup: [/usr/local/Ascend/ascend-toolkit/set_env.sh]
        env: {HCCL_CONNECT_TIMEOUT: 1800}
        proxies: {https_proxy: {secret: CORP_PROXY}}
        leases: /var/tmp/rlx-leases
        python: /opt/conda/bin/python   # may be started to look, where a recipe names it, too
    defaults: {host: a3}

`local` is this machine: it needs no entry, and one for it has no `ssh` and no `transport`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rlx.errors import UsageError
from rlx.hosts.inventory.host import Defaults, Host, HostFile
from rlx.hosts.inventory.host_entry import read_container, read_host
from rlx.hosts.inventory.host_values import name_problem
from rlx.hosts.inventory.host_yaml import Reader, read_nodes
from rlx.local_files import read_bytes
from rlx.plan import LOCAL

_SIZE_LIMIT = 1_000_000


def read_host_file(path: Path) -> HostFile:
    """Read a file of hosts; nothing, if it does not exist. Raises UsageError with file, line, key and fix."""
    text = read_text(path)
    return parse_host_file(text, str(path)) if text.strip() else HostFile()


def read_text(path: Path) -> str:
    """The text of a file of hosts, empty if there is none. Raises UsageError for what is no text of up to 1 MB."""
    if str(path) == os.devnull:
        return ""
    try:
        return read_bytes(path, _SIZE_LIMIT).decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is no UTF-8 text") from None


def parse_host_file(text: str, file: str, *, has_lines: bool = True) -> HostFile:
    """Raises UsageError with every problem. Without `has_lines`, problems are told without a line."""
    root, problems = read_nodes(text, file)
    if root is None:
        return HostFile()
    reader = Reader(file, problems, has_lines=has_lines)
    top = reader.section(root, "", ("hosts", "defaults"), {"default": "defaults", "host": "hosts"})
    hosts = _hosts(reader, top["hosts"]) if "hosts" in top else {}
    defaults = _defaults(reader, top["defaults"]) if "defaults" in top else None
    reader.check()
    return HostFile(hosts, defaults)


def _hosts(reader: Reader, node: Any) -> dict[str, Host]:
    found = {}
    for name, (name_node, value) in reader.entries(node, "hosts").items():
        if problem := name_problem(name):
            reader.complain(name_node, f"hosts.{name[:80]}", problem)
        else:
            found[name] = read_host(reader, name, name_node, value)
    return found


def _defaults(reader: Reader, node: Any) -> Defaults:
    values = reader.section(node, "defaults", ("host", "container"), {"ssh": "host"})
    host = reader.text(values["host"], "defaults.host") if "host" in values else None
    container = read_container(reader, values["container"], "defaults.container") if "container" in values else None
    return Defaults(host or LOCAL.host, container, reader.place(node))
