"""Ask for what verl wants of the machine that runs it."""

from rlx.preflight.wanted import BackendHost

# In a checkout that nobody installed its file is the only place of its version.
HOST = BackendHost(name="verl", packages=("verl",), version_file="version/version", starts_ray=True)
