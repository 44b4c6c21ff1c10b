"""Ask for what TRL wants of the machine that runs it."""

from rlx.planning.wanted import BackendHost

HOST = BackendHost(name="TRL", packages=("trl",))
