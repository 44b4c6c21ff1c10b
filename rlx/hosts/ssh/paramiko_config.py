"""Read what paramiko can honour of an ssh config, and the known keys of a host.

A host whose config needs more is refused, not reached round it.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import getpass
import glob
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rlx.errors import RlxError, UsageError
from rlx.hosts.ssh.openssh import check_destination
from rlx.hosts.ssh.ssh_config import ssh_config

_HONOURED = {
    "hostname", "port", "user", "identityfile", "identitiesonly", "identityagent",
    "userknownhostsfile", "globalknownhostsfile",
}  # fmt: skip
# rlx decides these itself for every transport, or they make no difference to a command.
_WITHOUT_EFFECT = {
    "batchmode", "stricthostkeychecking", "connecttimeout", "connectionattempts", "serveraliveinterval",
    "serveralivecountmax", "tcpkeepalive", "loglevel", "forwardagent", "forwardx11", "forwardx11trusted", "sendenv",
    "setenv", "hashknownhosts", "addkeystoagent", "usekeychain", "compression", "controlmaster", "controlpath",
    "controlpersist", "updatehostkeys", "visualhostkey", "checkhostip", "requesttty", "escapechar", "localforward",
    "remoteforward", "dynamicforward", "permitlocalcommand", "localcommand", "preferredauthentications",
    "pubkeyauthentication", "passwordauthentication", "numberofpasswordprompts", "gssapiauthentication",
    "gssapidelegatecredentials", "exitonforwardfailure", "ipqos", "ignoreunknown",
}  # fmt: skip
_OFF = ("no", "none", "false")
_PORT = 22
_MARKERS = ("@cert-authority", "@revoked")


@dataclass(frozen=True, slots=True)
class Settings:
    """The way to a destination. `identities` and `known_hosts` are files; some may not be there."""

    host: str
    port: int
    user: str
    identities: tuple[str, ...]
    uses_agent: bool
    looks_for_keys: bool
    known_hosts: tuple[Path, ...]


def settings_of(destination: str) -> Settings:
    """Read the settings for a destination.

    Raises UsageError for what is no destination, RlxError for a config that paramiko cannot honour.
    """
    user, alias, port = _parts(check_destination(destination))
    options = _options_of(alias)
    agent = options.get("identityagent", "SSH_AUTH_SOCK")
    return Settings(
        host=str(options.get("hostname", alias)),
        port=port or _port(options, alias),
        user=user or str(options.get("user", getpass.getuser())),
        identities=tuple(path for path in options.get("identityfile", ()) if Path(path).is_file()),
        uses_agent=agent != "none",
        looks_for_keys=options.get("identitiesonly", "no") != "yes" and "identityfile" not in options,
        known_hosts=_known_hosts(options),
    )


def _parts(destination: str) -> tuple[str | None, str, int | None]:
    if not destination.startswith("ssh://"):
        user, at, host = destination.rpartition("@")
        return (user if at else None), host, None
    try:
        url = urlsplit(destination)
        return url.username, url.hostname or "", url.port
    except ValueError as error:
        raise UsageError(f"{destination!r} is not a destination for ssh: {error}") from None


def _port(options: dict[str, str], alias: str) -> int:
    text = str(options.get("port", _PORT))
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) < 1 << 16):
        raise _refusal(alias, f"port {text}")
    return int(text)


def _known_hosts(options: dict[str, str]) -> tuple[Path, ...]:
    users = options.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
    everybodys = options.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
    return tuple(Path(name).expanduser() for name in f"{users} {everybodys}".split())


def _options_of(alias: str) -> dict[str, str]:
    import paramiko

    own = ssh_config()
    files = [Path(own)] if own else [Path("~/.ssh/config").expanduser(), Path("/etc/ssh/ssh_config")]
    text = "\n".join(_readable(path, alias) for path in files if path.is_file())
    options = paramiko.SSHConfig.from_text(text).lookup(alias)
    for name, value in options.items():
        _check(name, str(value), alias)
    return dict(options)


def _readable(path: Path, alias: str) -> str:
    """Return the text of a config file.

    A file begins anew for every host, also after the Host blocks of another one.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        keyword, value = re.match(r"\s*([^\s=]*)[\s=]*(.*)", line).groups()  # type: ignore[union-attr]
        if _needs_a_whole_ssh(keyword.lower(), value, path):
            raise _refusal(alias, f"{keyword} in {path}:{number}")
    return f"{text}\nHost *\n"


def _needs_a_whole_ssh(keyword: str, value: str, path: Path) -> bool:
    """Find what cannot be seen in the options of the host any more, once paramiko has read the file."""
    if keyword == "include":
        return _includes_something(value, path)
    if keyword == "canonicalizehostname":
        return value.lower() not in _OFF
    return keyword == "match" or (keyword.endswith("knownhostsfile") and '"' in value)


def _includes_something(value: str, path: Path) -> bool:
    folder = Path("~/.ssh").expanduser() if Path.home() in path.parents else Path("/etc/ssh")
    patterns = [str(folder / Path(word).expanduser()) for word in value.replace('"', "").split()]
    return any(glob.glob(pattern) for pattern in patterns)  # noqa: PTH207 - the pattern may be absolute


def _check(name: str, value: str, alias: str) -> None:
    is_on = value.lower() not in _OFF
    if name not in _HONOURED | _WITHOUT_EFFECT and is_on:
        raise _refusal(alias, f"{name} {value}")
    if name in _HONOURED and re.search(r"\s#|%", value):
        raise _refusal(alias, f"a comment or % in {name} {value}")
    if name == "identityagent" and value not in ("none", "SSH_AUTH_SOCK"):
        raise _refusal(alias, f"{name} {value}")


def _refusal(alias: str, what: str) -> RlxError:
    return RlxError(
        f"{alias}: its ssh config has what paramiko cannot honour: {what}",
        "use OpenSSH for this host (via: openssh), or give it a plain entry in a config of its own (RLX_SSH_CONFIG)",
    )


@dataclass(frozen=True, slots=True)
class HostKey:
    """`marker` is empty for a plain key, else @revoked or @cert-authority."""

    marker: str
    kind: str
    data: bytes


def host_keys(files: Iterable[Path], host: str, port: int) -> list[HostKey]:
    """Return the keys of a host. Lines that cannot be read are no keys; a file that is not there has none."""
    name = host.lower() if port == 22 else f"[{host.lower()}]:{port}"
    return [key for path in files for line in _lines(path) for key in _keys_in(line, name)]


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from file
    except OSError:
        return


def _keys_in(line: str, name: str) -> Iterator[HostKey]:
    fields = line.split()
    marker = fields.pop(0) if fields and fields[0] in _MARKERS else ""
    if len(fields) < 3 or fields[0].startswith(("#", "@")) or not _is_about(fields[0], name):
        return
    try:
        yield HostKey(marker, fields[1], base64.b64decode(fields[2]))
    except binascii.Error:
        return


def _is_about(patterns: str, name: str) -> bool:
    if patterns.startswith("|1|"):
        return _is_hash_of(patterns, name)
    listed = patterns.lower().split(",")
    refused = any(_matches(name, pattern[1:]) for pattern in listed if pattern.startswith("!"))
    return not refused and any(_matches(name, pattern) for pattern in listed if not pattern.startswith("!"))


def _matches(name: str, pattern: str) -> bool:
    """ssh's wildcards are * and ?; brackets are part of a name with a port."""
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def _is_hash_of(hashed: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in hashed.split("|")[2:4])
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
