"""Translate what paramiko raises while connecting into errors of rlx."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from rlx.hosts.host_errors import AccessDenied, HostError, HostKeyChanged, HostKeyUnknown, Unreachable
from rlx.hosts.ssh.paramiko_config import Settings

UNKNOWN_KEY = "the key is not among the known ones"


@contextmanager
def connecting(host: str, destination: str, settings: Settings) -> Iterator[None]:
    """Raises HostErrors in place of paramiko's and the system's."""
    import paramiko

    try:
        yield
    except (paramiko.SSHException, OSError, EOFError, UnicodeError) as error:
        raise _meaning(error, f"{host} ({settings.user}@{settings.host}:{settings.port})", settings) from None


def _meaning(error: Exception, where: str, settings: Settings) -> HostError:
    import paramiko

    name = settings.host if settings.port == 22 else f"[{settings.host}]:{settings.port}"
    if isinstance(error, paramiko.BadHostKeyException):
        hint = (
            "if the machine was set up anew, ask its administrator for the new fingerprint, then forget the old key:"
            f" ssh-keygen -R '{name}'; otherwise somebody may be in between: do not connect"
        )
        return HostKeyChanged(f"{where}: the host shows another key than the known one, or a revoked one", hint)
    if str(error) == UNKNOWN_KEY:
        hint = (
            f"get its line with `ssh-keyscan -p {settings.port} {settings.host}`, compare the fingerprint with what"
            f" its administrator says, and add it to {settings.known_hosts[0]}"
        )
        return HostKeyUnknown(f"{where}: nobody has confirmed this host's key yet", hint)
    if isinstance(error, paramiko.AuthenticationException | paramiko.PasswordRequiredException):
        hint = "is it the right user, and is the key loaded (ssh-add -l) or named by IdentityFile in the ssh config?"
        return AccessDenied(f"{where}: the host does not let this user in ({error})", hint)
    if isinstance(error, socket.gaierror):
        return Unreachable(f"{where}: no such host name ({error.strerror})", "is the name spelled right?")
    return Unreachable(
        f"{where}: no connection ({error})", "is the network or VPN up, the port right and sshd running?"
    )
