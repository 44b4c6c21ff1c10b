"""Find in a log why a run failed, hangs, or went wrong. The known failures are rows below rows/."""

from rlx.evidence.diagnosis.collapse import collapses
from rlx.evidence.diagnosis.diagnose import Diagnosis, Hit, diagnose
from rlx.evidence.diagnosis.excerpt import Excerpt, read_excerpt
from rlx.evidence.diagnosis.signatures import Signature, SignatureKind, causes_of_machine, needle_pattern, signatures
from rlx.evidence.diagnosis.stall import Quiet, is_stalled, stalls

__all__ = [
    "Diagnosis",
    "Excerpt",
    "Hit",
    "Quiet",
    "Signature",
    "SignatureKind",
    "causes_of_machine",
    "collapses",
    "diagnose",
    "is_stalled",
    "needle_pattern",
    "read_excerpt",
    "signatures",
    "stalls",
]
