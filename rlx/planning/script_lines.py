"""Find lines of a user's launch script that affect other processes, or that behave differently under rlx.

Most kinds are found by words in the commands, without text that is only printed or written to a file. For Ray's own
commands the ports matter, so the script is read as bash would read it. A line can be hidden on purpose; the check is
meant for harmless scripts that were written for a machine with a single user.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rlx.errors import UsageError
from rlx.model import Finding, LaunchPlan, Severity
from rlx.model.run_dir import SCRIPT_DIR
from rlx.shell_reader import Unknown, Word, read_script, wrappers
from rlx.shell_reader.contained_commands import Reach, without_contained
from rlx.shell_reader.shell_syntax import without_printed

ACCEPTED = "--accept-lines"
RAY_JOB, RAY_START = "RLX046", "RLX047"
"""The ids of the findings."""
_NOTHING = Reach()
_MOST_SHOWN = 5
_WIDEST = 100
# Patterns for text that is not parsed: in a substitution, whose commands the reader does not follow, and in a script
# that cannot be read.
_SUBSTITUTED = r"(?:\$\(|`)[^)`$]*"
_WORDS = {RAY_JOB: r"\bray\s+job\s+submit\b", RAY_START: r"\bray\s+start\b(?!.*\s--port[=\s]\s*0\b)"}
# A value that the script computes when it runs, such as a free port.
_COMPUTED = re.compile(r"\$\((?!\()|`|\$\$|\bRANDOM\b|^read ")


@dataclass(frozen=True, slots=True)
class _Kind:
    """What such lines do, in words, and how to fix them. `lines` is None where `ray_lines` finds them."""

    id: str
    severity: Severity
    lines: re.Pattern[str] | None
    what: str
    fix: str
    kept: str = ""
    """What becomes of such lines where they reach what keeps them within the run."""


# A process by the variable that holds its number, as of a child of the script's own.
_BY_NUMBER = r"(?![^;|&]{0,200}\s(?:-[Pp]\s*|--p?pid[ =]|--parent[ =])\s*['\"]?\$[\w{$!])"
_KINDS = (
    _Kind(
        "RLX031",
        Severity.ERROR,
        re.compile(
            rf"\b(?:pkill{_BY_NUMBER}|killall5?|skill|fuser\s+-\w*k)\b|\bray\s+stop\b"
            rf"|^(?=.*\bkill\b).*\b(?:pgrep|pidof|ps|lsof)\b{_BY_NUMBER}"
            r"|\bos\.kill(?:pg)?\s*\((?!\s*os\.getp)|\brm\s+-(?=\w*r)\w+\s+\S*/ray\b|\bkill\s+(?:-\w+\s+)?-1\b|(?<![.\w])reboot\b"
        ),
        "would end processes, or a Ray, that do not belong to this run",
        "remove them: rlx gives each run its own Ray and ends the processes that it leaves",
        "reach the processes and the Ray of this run alone",
    ),
    _Kind(
        "RLX032",
        Severity.ERROR,
        re.compile(
            r"\b(?:docker|podman|nerdctl)\s+(?:compose\s+)?(?:-\S+\s+)*(?:run|exec|start|restart|stop|kill|rm|up|down)\b"
            r"|\b(?:singularity|apptainer)\s+(?:run|exec|shell|instance)\b|\bkubectl\s+(?:run|exec|apply)\b"
            r"|(?<![\w./-])(?:ssh|srun|sbatch)\s+\S"
        ),
        "would work outside this run: in another container, on another machine or in a batch queue",
        "launch the program that runs there, and let rlx choose the place: --host, --container",
    ),
    _Kind(
        RAY_JOB,
        Severity.ERROR,
        None,
        "hands the training to a Ray as a job, which is no process of this run: `rlx stop` would not end it, and the "
        "devices would be released while it runs",
        "start the training itself, without `ray job submit`",
        "go to the Ray of this run, with the id of the run",
    ),
    _Kind(
        RAY_START,
        Severity.ERROR,
        None,
        "starts or joins a Ray on a port that other users may use, so the training may run in another user's Ray",
        "remove it: rlx gives each run its own Ray; or start it with `--port 0`",
        "get ports, a folder, a token and the devices of this run",
    ),
    _Kind(
        "RLX033",
        Severity.WARNING,
        re.compile(r"\b(?:ASCEND_RT|CUDA|HIP)_VISIBLE_DEVICES=(?!['\"]?\$\{?RLX_DEVICES)"),
        "chooses devices by itself, regardless of the devices that this run has leased",
        "remove it: rlx sets it to the run's devices; --devices chooses them",
    ),
    _Kind(
        "RLX034",
        Severity.WARNING,
        re.compile(
            r"\bnohup\b|\bsetsid\b|\bdisown\b|\b(?:tmux|screen)\s|[^&>|]&\s*$|&>>?\s*\S|(?:^|[^0-9&>])>>?\s*[^\s>]+\s+2>&1|\$\{?0\b"
            r"|\bBASH_SOURCE\b"
        ),
        "behaves differently here: the run ends with its script, reads its output and has only a copy of it",
        "run the training in the foreground, let it print, and name files in full; --workdir says where it starts",
    ),
)


def script_findings(plan: LaunchPlan, *, accepted: bool = False, reach: Reach = _NOTHING) -> Iterator[Finding]:
    """Report such lines of the script that the plan sends, by number. `accepted`: the user accepted them."""
    for file in plan.files:
        if file.path.startswith(f"{SCRIPT_DIR}/"):
            found = findings_of(file.content, file.path, reach)
            yield from (_accepted(each) if accepted else each for each in found)


def findings_of(text: str, name: str, reach: Reach = _NOTHING) -> Iterator[Finding]:
    """Report the lines of one script, with one finding per kind.

    `reach` is what the shell of its place finds of what keeps commands within a run: such lines are notes.
    """
    written = _found(text, name)
    left = _found(without_contained(text, name, reach), name) if reach.functions else written
    lines = {number: line for number, _, line in _commands(text, name)}
    for kind in _KINDS:
        if kind.kept and (kept := [number for number in written[kind.id] if number not in left[kind.id]]):
            message = f"lines of the script {kind.kept}: {_shown(kept, lines)}"
            yield Finding(kind.id, Severity.NOTE, message, "", name)
        if numbers := left[kind.id] if kind.kept else written[kind.id]:
            fix = kind.fix if kind.severity is Severity.WARNING else f"{kind.fix}; {ACCEPTED} launches it as it is"
            yield Finding(kind.id, kind.severity, f"the script {kind.what}: {_shown(numbers, lines)}", fix, name)


def _found(text: str, name: str) -> Mapping[str, list[int]]:
    """Return the numbers of the lines of each kind."""
    lines = list(_commands(text, name))
    rays = ray_lines(text, name, [(number, words) for number, words, _ in lines])
    return {
        kind.id: [
            number
            for number, words, _ in lines
            if (number in rays[kind.id] if kind.lines is None else kind.lines.search(words))
        ]
        for kind in _KINDS
    }


def _shown(numbers: Sequence[int], lines: Mapping[int, str]) -> str:
    shown = "; ".join(f"line {number}: {_short(lines[number])}" for number in numbers[:_MOST_SHOWN])
    return f"{shown}; and {len(numbers) - _MOST_SHOWN} more" if len(numbers) > _MOST_SHOWN else shown


def _accepted(finding: Finding) -> Finding:
    if finding.severity is not Severity.ERROR:
        return finding
    return replace(finding, severity=Severity.NOTE, message=f"accepted: {finding.message}", fix="", waived=ACCEPTED)


def _short(line: str) -> str:
    line = " ".join(line.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"


def _commands(text: str, name: str) -> Iterator[tuple[int, str, str]]:
    """Yield for each line and its continuations: number, text that may be a command, and text without comments."""
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


def ray_lines(text: str, name: str, lines: Sequence[tuple[int, str]]) -> Mapping[str, frozenset[int]]:
    """Return the numbers of such lines by the id of their finding. `lines` are all lines, continued ones as one."""
    starts = [number for number, _ in lines]
    found: dict[str, set[int]] = {RAY_JOB: set(), RAY_START: set()}
    before = _SUBSTITUTED
    try:
        for kind, line in _ray_commands(text, name):
            found[kind].add(starts[max(0, bisect_right(starts, line) - 1)])
    except UsageError:
        before = ""
    for kind, words in _WORDS.items():
        pattern = re.compile(before + words)
        found[kind] |= {number for number, line in lines if pattern.search(line)}
    return {kind: frozenset(numbers) for kind, numbers in found.items()}


def _ray_commands(text: str, name: str) -> Iterator[tuple[str, int]]:
    """Yield each such command with its line. Raises UsageError for a script that cannot be read."""
    has_own = False
    for inner in wrappers.programs(read_script(text, name), name):
        words, line = inner.command.words, inner.command.line
        texts = [word.text() for word in words[:3]]
        texts[0] = texts[0].rpartition("/")[2]
        if wrappers.RAY_JOB in inner.wrappers or " ".join(texts) == wrappers.RAY_JOB:
            yield RAY_JOB, line
        if texts[:2] == ["ray", "start"]:
            is_head = _option(words, "--address") is None
            if not _is_own(words, "--port" if is_head else "--address") or not (is_head or has_own):
                yield RAY_START, line
            has_own = has_own or is_head


def _is_own(words: Sequence[Word], option: str) -> bool:
    """Return whether Ray chooses the port or the script computes it; without the option it is Ray's default port."""
    port = _option(words, option)
    if port is None:
        return False
    # In an address the port comes last.
    last = port.parts[-1] if port.parts else ""
    return bool(_COMPUTED.search(last.source)) if isinstance(last, Unknown) else last == "0"


def _option(words: Sequence[Word], option: str) -> Word | None:
    """Return the value of an option, the last one if it is given several times; None without it."""
    value = None
    for i, word in enumerate(words):
        first = word.parts[0] if word.parts else ""
        if first == option:
            value = words[i + 1] if i + 1 < len(words) else None
        elif isinstance(first, str) and first.startswith(f"{option}="):
            rest = first.removeprefix(f"{option}=")
            value = Word((*([rest] if rest else []), *word.parts[1:]))
    return value
