"""What can go wrong on the way to a host. Each error names the host, the masked command and the way out.

HostError            the host did not do what was asked (exit 4)
├── Unreachable      no connection came about
├── HostKeyUnknown   nobody has confirmed yet that this key is the host's
├── HostKeyChanged   the host shows another key than the known one
├── AccessDenied     the host does not let this user in
├── ConnectionLost   the connection broke while the command ran
├── TimedOut         the command took too long
└── ContainerGone    the container is not there, is not running, or this user may not enter it
ToolMissing          this machine lacks the program that connects (exit 1)
"""

from __future__ import annotations

from rlx.errors import ExitCode, RlxError


class HostError(RlxError):
    """`arrived`: the command may have reached the host; False if it certainly did not."""

    exit_code = ExitCode.UNREACHABLE
    arrived = False


class Unreachable(HostError):
    pass


class HostKeyUnknown(HostError):
    pass


class HostKeyChanged(HostError):
    pass


class AccessDenied(HostError):
    pass


class ConnectionLost(HostError):
    arrived = True


class TimedOut(HostError):
    arrived = True


class ContainerGone(HostError):
    pass


class ToolMissing(RlxError):
    pass
