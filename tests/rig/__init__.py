"""Remote hosts for tests, on this machine: real sshd, real Docker, a network that can be slow or cut."""

from tests.rig.capabilities import RigUnavailable
from tests.rig.client import Client
from tests.rig.docker import Container, Engine
from tests.rig.host import Host
from tests.rig.rig import Rig

__all__ = ["Client", "Container", "Engine", "Host", "Rig", "RigUnavailable"]
