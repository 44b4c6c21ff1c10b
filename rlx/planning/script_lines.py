"""Find lines of a users' launch script that reach beyond its own run, or that work otherwise than when typed by hand.

For most kinds words are looked for in the commands, without what is only printed or written to a file. Of Ray's own
commands the ports count, so there the script is read as bash would read it. Whoever wants to hide a line can; this is
for scripts that were written for a machine of one's own, and mean no harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rlx.model import Finding, LaunchPlan, Severity
from rlx.model.run_dir import SCRIPT_DIR
from rlx.planning.ray_commands import RAY_JOB, RAY_START, ray_lines
from rlx.shell_reader.printed_text import without_printed

ACCEPTED = "--accept-lines"
_MOST_SHOWN = 5
_WIDEST = 100


@dataclass(frozen=True, slots=True)
class _Kind:
    """What such lines do, in words, and what to do about them. `lines` is None where ray_commands.py finds them."""

    id: str
    severity: Severity
    lines: re.Pattern[str] | None
    what: str
    fix: str


# A process by the variable that holds its number, as of a child of the script's own.
_BY_NUMBER = r"(?![^;|&]{0,200}\s(?:-[Pp]\s*|--p?pid[ =]|--parent[ =])\s*['\"]?\$[\w{$!])"
_KINDS = (
    _Kind(
        "RLX031",
        Severity.ERROR,
        re.compile(
            rf"\b(?:pkill{_BY_NUMBER}|killall5?|skill|fuser\s+-\w*k)\b|\bray\s+stop\b"
            rf"|^(?=.*\bkill\b).*\b(?:pgrep|pidof|ps|lsof)\b{_BY_NUMBER}"
            r"|\brm\s+-(?=\w*r)\w+\s+\S*/ray\b|\bkill\s+(?:-\w+\s+)?-1\b|(?<![.\w])reboot\b"
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
        RAY_JOB,
        Severity.ERROR,
        None,
        "hands the training to a Ray as a job, which is no process of this run: `rlx stop` would not end it, and the "
        "devices would be given back while it runs",
        "start the training itself, without `ray job submit`",
    ),
    _Kind(
        RAY_START,
        Severity.ERROR,
        None,
        "starts or joins a Ray on a port that others may use, so that the training may run in another user's Ray",
        "take it out: rlx gives each run a Ray of its own; or start it with `--port 0`",
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
            r"\bnohup\b|\bsetsid\b|\bdisown\b|\b(?:tmux|screen)\s|[^&>|]&\s*$|&>>?\s*\S|(?:^|[^0-9&>])>>?\s*[^\s>]+\s+2>&1|\$\{?0\b"
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
    lines = list(_commands(text, name))
    rays = ray_lines(text, name, [(number, words) for number, words, _ in lines])
    for kind in _KINDS:
        if kind.lines is None:
            found = [(number, line) for number, _, line in lines if number in rays[kind.id]]
        else:
            found = [(number, line) for number, words, line in lines if kind.lines.search(words)]
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


def _commands(text: str, name: str) -> Iterator[tuple[int, str, str]]:
    """Number of a line, what of it and of those that continue it may be a command, and all of them but comments."""
    words = shown = ""
    start = 0
    both = zip(without_printed(text, name).split("\n"), text.split("\n"), strict=True)
    for number, (line, written) in enumerate(both, start=1):
        bare = _without_comment(line)
        start = start if words else number
        words += bare.removesuffix("\\") + " "
        shown += _without_comment(written).removesuffix("\\") + " "
        if not bare.endswith("\\"):
            yield start, words, shown
            words = shown = ""
    if words:
        yield start, words, shown


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
