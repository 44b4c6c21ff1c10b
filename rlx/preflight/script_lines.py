"""Find lines of a users' launch script that reach beyond its own run, or that work otherwise than when typed by hand.

No shell is understood here: words are looked for, outside comments and plain echoes. Whoever wants to hide one can;
this is for scripts that were written for a machine of one's own, and mean no harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rlx.plan import Finding, LaunchPlan, Severity
from rlx.plan.run_dir import SCRIPT_DIR

ACCEPTED = "--accept-lines"
_MOST_SHOWN = 5
_WIDEST = 100


@dataclass(frozen=True, slots=True)
class _Kind:
    """What such lines do, in words, and what to do about them."""

    id: str
    severity: Severity
    lines: re.Pattern[str]
    what: str
    fix: str


_PLAIN_ECHO = re.compile(r"\s*(?:echo|printf)\b[^;|&`<>]*$")
_KINDS = (
    _Kind(
        "RLX031",
        Severity.ERROR,
        re.compile(
            r"\b(?:pkill|killall5?|skill|fuser\s+-\w*k)\b|\bray\s+stop\b|\bkill\b.*\b(?:pgrep|pidof|ps|lsof)\b"
            r"|\b(?:pgrep|pidof|ps|lsof)\b.*\bkill\b|\brm\s+-\w*r\w*\s+\S*/ray\b|\bkill\s+(?:-\w+\s+)?-1\b|(?<![.\w])reboot\b"
        ),
        "would end processes, or a Ray, that are not this run's",
        "take them out: rlx gives each run a Ray of its own and ends what it left",
    ),
    _Kind(
        "RLX032",
        Severity.ERROR,
        re.compile(
            r"\b(?:docker|podman|nerdctl)\s+(?:compose\s+)?(?:-\S+\s+)*(?:run|exec|start|restart|stop|kill|rm|up|down)\b"
            r"|\b(?:singularity|apptainer)\s+(?:run|exec|shell|instance)\b|\bkubectl\s+(?:run|exec|apply)\b"
            r"|(?<![\w./-])(?:ssh|srun|sbatch)\s+\S"
        ),
        "would work outside this run: in a container of its own, on another machine, in a queue",
        "launch what runs in there, and let rlx go there: --host, --container",
    ),
    _Kind(
        "RLX033",
        Severity.WARNING,
        re.compile(r"\b(?:ASCEND_RT|CUDA|HIP)_VISIBLE_DEVICES=(?!['\"]?\$\{?RLX_DEVICES)"),
        "chooses devices by itself, whichever this run has leased",
        "leave it out: rlx sets it to the run's own; --devices asks for certain ones",
    ),
    _Kind(
        "RLX034",
        Severity.WARNING,
        re.compile(
            r"\bnohup\b|\bsetsid\b|\bdisown\b|\b(?:tmux|screen)\s|[^&>|]&\s*$|&>>?\s*\S|(?:^|[^0-9&>])>>?\s*\S+\s+2>&1|\$\{?0\b"
            r"|\bBASH_SOURCE\b"
        ),
        "works otherwise here: the run ends with its script, reads what that prints, and has a copy of it alone",
        "run the training in the foreground, let it print, and name files in full; --workdir says where it starts",
    ),
)


def script_findings(plan: LaunchPlan, *, accepted: bool = False) -> Iterator[Finding]:
    """Report such lines of the script that the plan sends, by number. `accepted`: a person has seen and wants them."""
    for file in plan.files:
        if file.path.startswith(f"{SCRIPT_DIR}/"):
            yield from (_accepted(each) if accepted else each for each in findings_of(file.content, file.path))


def findings_of(text: str, name: str) -> Iterator[Finding]:
    """Report the lines of one script, one finding a kind."""
    lines = list(_commands(text))
    for kind in _KINDS:
        found = [(number, line) for number, line in lines if kind.lines.search(line)]
        if found:
            shown = "; ".join(f"line {number}: {_short(line)}" for number, line in found[:_MOST_SHOWN])
            more = f"; and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
            fix = kind.fix if kind.severity is Severity.WARNING else f"{kind.fix}; {ACCEPTED} launches it as it is"
            yield Finding(kind.id, kind.severity, f"the script {kind.what}: {shown}{more}", fix, name)


def _accepted(finding: Finding) -> Finding:
    if finding.severity is not Severity.ERROR:
        return finding
    return replace(finding, severity=Severity.NOTE, message=f"accepted: {finding.message}", fix="", waived=ACCEPTED)


def _short(line: str) -> str:
    line = " ".join(line.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"


def _commands(text: str) -> Iterator[tuple[int, str]]:
    """Number of the first line, and the line with those that continue it, without comments and plain echoes."""
    begun, start = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        bare = _without_comment(line)
        start = start if begun else number
        begun += bare.removesuffix("\\") + " "
        if bare.endswith("\\"):
            continue
        if not _PLAIN_ECHO.match(begun):
            yield start, begun
        begun = ""
    if begun:
        yield start, begun


def _without_comment(line: str) -> str:
    """Cut at a # that begins a word outside quotes."""
    quote = ""
    for i, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#" and (i == 0 or line[i - 1] in " \t;"):
            return line[:i].rstrip()
    return line.rstrip()
