"""What would fail: asks a host, in one round trip and without writing there, whether a run could go well."""

from rlx.preflight.before_launch import quick
from rlx.preflight.doctor import examine, findings_of, has_errors
from rlx.preflight.examined import Clock, Examined
from rlx.preflight.wanted import Wanted, wanted_by

__all__ = ["Clock", "Examined", "Wanted", "examine", "findings_of", "has_errors", "quick", "wanted_by"]
