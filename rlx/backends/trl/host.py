"""The requirements of TRL on the machine that runs it."""

from rlx.planning.host_requirements import BackendHost

HOST = BackendHost(name="TRL", packages=("trl",))
