"""The line that says noise was added to weights, as rlx's own payload prints it, and noise in words that nobody knows.

Only an `Applied noise to N` line is evidence. It does not name its step and sigma: the payload's events do, or another
line of a fork (`noise` of its back-end's log grammar). Lines that announce, configure or skip noise prove nothing: they
are also printed at sigma 0, with no layer matched, and in runs that never added any.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from rlx.evidence.grammars import grammars
from rlx.evidence.log_grammar import NoiseSays
from rlx.evidence.run_evidence import Announcement, NoiseEvent

NEEDLES = (b"AQN",)

_APPLIED = re.compile(r"(?:\[AQN\] )?Applied noise to (\d{1,9}) ([\w+/,-]{1,60}) layers \(skipped ")
_KNOWN = re.compile(r"\[AQN|Applied noise")
_ANY_SIGMA = re.compile(r"\bAQN\b[^'\"`]{0,200}\bsigma=([\d.eE+-]{1,30})")
_FOLDED = re.compile(r"\[repeated \d+x")
# A line begins there, or after what Ray, a logger or a progress bar put before it. Whoever quotes or tells of such a
# line has a word or a quotation mark there.
_BEGIN = re.compile(r"^\s*$|[\])]\s*$|(?:DEBUG|INFO|WARNING)\b[^'\"`]{0,200}[:\-]\s*$")


def read_aqn_line(line: str) -> NoiseSays | None:
    """Read what a line says about noise, in the wordings of any back-end's forks first; None: nothing."""
    said = (grammar.noise(line) for grammar in grammars())
    return next((each for each in said if each is not None), None) or read_applied(line) or _unknown(line)


def read_applied(line: str) -> NoiseEvent | None:
    """`[AQN] Applied noise to 57 RMSNorm layers (skipped 0 excluded layers)`."""
    if (match := at_begin(_APPLIED, line)) is None:
        return None
    said = applied(int(match[1]), "RMSNorm" if match[2].lower() == "rmsnorm" else match[2])
    return replace(said, folded=True) if _FOLDED.search(line, match.end()) else said


def applied(layers: int, kind: str, *, per_layer: bool = False) -> NoiseEvent:
    """Noise on so many layers, at a step and with a sigma that the line does not tell."""
    return NoiseEvent(step=None, sigma=math.nan, layers=layers, kind=kind, per_layer=per_layer)


def _unknown(line: str) -> Announcement | None:
    """Notice noise in words of one's own, which is no evidence, but no silence either."""
    match = None if _KNOWN.search(line) else _ANY_SIGMA.search(line)
    return Announcement(None, sigma) if match and (sigma := read_sigma(match[1])) else None


def at_begin(pattern: re.Pattern[str], line: str) -> re.Match[str] | None:
    """The match, if the line begins with it."""
    match = pattern.search(line)
    return match if match and _BEGIN.search(line[max(0, match.start() - 300) : match.start()]) else None


def read_sigma(printed: str) -> float | None:
    """The number; None where what is printed is none."""
    try:
        return float(printed)
    except ValueError:
        return None
