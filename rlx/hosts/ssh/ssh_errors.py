"""Translate what ssh says when it fails into errors of rlx. The wordings are those of OpenSSH 7.4 to 10."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlx.hosts.connection import ConnectionFailure
from rlx.hosts.host_errors import (
    AccessDenied,
    ConnectionLost,
    HostError,
    HostKeyChanged,
    HostKeyUnknown,
    Unreachable,
)
from rlx.hosts.ssh.ssh_config import ssh_config
from rlx.hosts.transport import shown

_SSH_FAILED = 255
# The shared connection was dying: it had not begun anything for this command.
_SHARED_CONNECTION_GONE = re.compile(r"mux_client_(hello|request)\w*:|Control socket connect", re.IGNORECASE)
# Before the two had said anything to each other: sshd has more connections than MaxStartups allows.
_TURNED_AWAY = re.compile(r"(kex|ssh)_exchange_identification", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _SshMessage:
    says: str
    error: type[HostError]
    meaning: str
    hint: str


# The first that matches counts: a failed jump host ends with the words of the connection through it.
_WORDINGS = (
    _SshMessage(
        r"host identification has changed|has changed and you have requested strict|revoked",
        HostKeyChanged,
        "the host shows another key than the known one, or a revoked one",
        "if the machine was set up anew, ask its administrator for the new fingerprint, then forget the old key:"
        " {forget}; otherwise the connection may be intercepted: do not connect",
    ),
    _SshMessage(
        r"host key is known|host key verification failed",
        HostKeyUnknown,
        "this host's key is not confirmed yet",
        "connect once by hand and compare the fingerprint: {by_hand}",
    ),
    _SshMessage(
        r"permission denied|too many authentication failures|no more authentication methods",
        AccessDenied,
        "the host does not let this user in",
        "check the user, and that the key is loaded (ssh-add -l) or named by IdentityFile in the ssh config;"
        " rlx never asks for a password; see by hand: {by_hand}",
    ),
    _SshMessage(
        r"could not resolve|name or service not known|temporary failure in name|no address associated",
        Unreachable,
        "no such host name",
        "check the spelling, whether the ssh config lacks an alias, and the network or VPN",
    ),
    _SshMessage(
        r"connection refused|open failed: connect failed",
        Unreachable,
        "nothing answers there",
        "check the port, and that sshd is running; by hand: {by_hand}",
    ),
    _SshMessage(
        r"timeout, server|client_loop|broken pipe|shared connection broke off|connection to \S+ closed by remote",
        ConnectionLost,
        "the connection broke",
        "check the network or VPN; the command may have arrived: `rlx status` shows what is there",
    ),
    _SshMessage(
        r"timed out|no route to host|network is unreachable|host is down",
        Unreachable,
        "no way to the host",
        "check the network or VPN, and that the machine is on; by hand: {by_hand}",
    ),
    _SshMessage(
        r"kex_exchange|ssh_exchange|banner exchange|unable to negotiate",
        Unreachable,
        "no ssh connection came about",
        "possible causes: too many connections, an sshd that refuses this client, a failed jump host (ProxyJump);"
        " see what it says by hand: {by_hand}",
    ),
)


def explain_ssh(host: str, destination: str, failure: ConnectionFailure) -> HostError | None:
    """Explain it; None if only the shared connection was gone, so that a new one is worth a try."""
    if failure.began:
        hint = "check the network or VPN; the command had begun: `rlx status` shows what is there"
        return ConnectionLost(_text(host, "the connection broke while the command ran", "", failure), hint)
    if failure.code != _SSH_FAILED:
        meaning = f"the login shell ended before the command began (exit {failure.code})"
        return AccessDenied(_text(host, meaning, failure.said), f"see what it says: {by_hand(destination)}")
    if _SHARED_CONNECTION_GONE.search(failure.said):
        return None
    for wording in _WORDINGS:
        if re.search(wording.says, failure.said, re.IGNORECASE):
            error = _named(host, destination, failure, wording)
            error.was_turned_away = bool(_TURNED_AWAY.search(failure.said))
            return error
    return _unknown(host, destination, failure)


def _named(host: str, destination: str, failure: ConnectionFailure, wording: _SshMessage) -> HostError:
    hint = wording.hint.format(by_hand=by_hand(destination), forget=_forget(failure.said, destination))
    line = next(line for line in failure.said.splitlines() if re.search(wording.says, line, re.IGNORECASE))
    # What was not reached has not had the command, which then says nothing about the failure.
    sent = failure if wording.error.arrived else None
    return wording.error(_text(host, wording.meaning, line, sent), hint)


def _unknown(host: str, destination: str, failure: ConnectionFailure) -> HostError:
    """ssh may also have failed after the command was sent, so it may have arrived."""
    meaning = "ssh failed" if failure.said else "the host stopped answering"
    error = Unreachable(_text(host, meaning, failure.said, failure), f"see by hand: {by_hand(destination)}")
    error.arrived = True
    return error


def _text(host: str, meaning: str, said: str, sent: ConnectionFailure | None = None) -> str:
    """Add the first line of what was said, and the command, if it may have been `sent`."""
    words = f" ({said.splitlines()[0].strip(' @')})" if said else ""
    return f"{host}: {meaning}{words}{f'; command: {shown(sent.cmd)}' if sent else ''}"


def by_hand(destination: str) -> str:
    config = ssh_config()
    return f"ssh -F {config} {destination}" if config else f"ssh {destination}"


def _forget(said: str, destination: str) -> str:
    """Return the command that removes the key; ssh itself names the file and the entry, where it knows them."""
    command = re.search(r"ssh-keygen -f .*-R .*", said)
    return command.group().strip() if command else f"ssh-keygen -R {destination.rpartition('@')[2]}"
