"""Pack many probes into one script for one round trip, and split the output into their answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlx.model import Cmd
from rlx.planning.probing.probe import Question, Side, script

_END_OF_CONTAINER = "END_OF_CONTAINER"
# timeout(1) exits with 124; 137 and 143 are the signals that it sends.
_TIMED_OUT = frozenset({124, 137, 143})


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The answer of one probe. `status` is None if the probe did not end."""

    text: str
    status: int | None

    @property
    def answered(self) -> bool:
        return self.status is not None and self.status not in _TIMED_OUT


def pack(questions: Iterable[Question], container: str | None = None, inside: Sequence[Question] = ()) -> str:
    """Return the script for `sh -s MARK`, which contains the script for the container if there is one."""
    calls = _calls(questions) if container is None else _calls_and_enter(questions, container, inside)
    parts = [script("composite.sh"), calls]
    parts.append('printf \'\\n%s time %s\\n\' "$mark" "$(date +%s)"\n')
    return "".join(parts)


def pack_beside(
    command: Cmd, name: str, questions: Iterable[Question], container: str, inside: Sequence[Question]
) -> str:
    """Return the script of `pack` that also runs a command, whose output becomes the frame `name`."""
    parts = [
        script("composite.sh"),
        f"{command.raw()} </dev/null 2>&1 | {{\n",
        _calls_and_enter(questions, container, inside),
        framed("$mark", name, "cat\n"),
        '}\nprintf \'\\n%s time %s\\n\' "$mark" "$(date +%s)"\n',
    ]
    return "".join(parts)


def _calls_and_enter(questions: Iterable[Question], container: str, inside: Sequence[Question]) -> str:
    """Query the container while the host is queried, but the devices that both share one at a time."""
    asked = list(questions)
    first = "".join(_call(question) for question in asked if question.probe.asks_devices)
    rest = [question for question in asked if not question.probe.asks_devices]
    return first + _beside(_enter(container, inside), _calls(rest))


def _calls(questions: Iterable[Question]) -> str:
    asked = list(questions)
    calls = "".join(_call(question) for question in asked if not question.probe.beside)
    for question in asked:
        calls = _beside(_call(question), calls) if question.probe.beside else calls
    return calls


def _beside(long: str, calls: str) -> str:
    """Run `long` beside the calls; its output waits in a pipe, so that the two do not mix."""
    return f"{{\n{long}}} | {{\n{calls}cat\n}}\n"


def _enter(container: str, inside: Sequence[Question]) -> str:
    call = Cmd("enter", container, str(total_limit_s(inside))).raw()
    return f"{call} <<'{_END_OF_CONTAINER}'\n{pack(inside)}{_END_OF_CONTAINER}\n"


def framed(mark: str, name: str, commands: str) -> str:
    """Write shell commands with a frame around their output."""
    return f"printf '\\n%s begin {name}\\n' \"{mark}\"\n{commands}printf '\\n%s end {name} 0\\n' \"{mark}\"\n"


def total_limit_s(questions: Iterable[Question]) -> int:
    """Return the time limit of all probes together; the reader waits 3 s longer for each."""
    return 10 + sum(question.probe.limit_s + 4 for question in questions)


def _call(question: Question) -> str:
    probe = question.probe
    shell = "shell=$(command -v bash || echo sh)\n" if probe.bash else "shell=sh\n"
    return f"{shell}{Cmd('probe', probe.name, str(probe.limit_s), script(probe.script), *question.arguments).raw()}\n"


def frames(output: str, mark: str) -> dict[str, ProbeAnswer]:
    """Return the answers by the name of the probe."""
    begin = re.compile(rf"^{re.escape(mark)} begin (\S+)\n", re.MULTILINE)
    return {match[1]: _frame(output[match.end() :], match[1], mark) for match in begin.finditer(output)}


def _frame(rest: str, name: str, mark: str) -> ProbeAnswer:
    end = re.search(rf"^{re.escape(mark)} end {re.escape(name)} (\d{{1,9}})$", rest, re.MULTILINE)
    if end:
        return ProbeAnswer(rest[: max(end.start() - 1, 0)], int(end[1]))
    nothing_more = re.search(rf"^{re.escape(mark)} ", rest, re.MULTILINE)
    return ProbeAnswer(rest[: nothing_more.start() - 1] if nothing_more else rest, None)


def outside_frames(text: str, mark: str) -> str:
    """Return the text without the frames of both sides."""
    begin_to_end = rf"^({re.escape(mark)}(?:-inside)?) begin (\S+)\n.*?^\1 end \2 \d+$"
    return re.sub(begin_to_end, "", text, flags=re.MULTILINE | re.DOTALL)


def times(output: str, mark: str) -> list[int]:
    """Return the host's clock at the beginning and at the end of the script, in seconds since 1970."""
    return [int(text) for text in re.findall(rf"^{re.escape(mark)} time (\d{{1,18}})$", output, re.MULTILINE)]


def read_side(questions: Sequence[Question], answers: dict[str, ProbeAnswer]) -> Side:
    """Parse each answer by its probe."""
    asked = {question.probe.name: question.probe for question in questions}
    found = {name: answers[name] for name in asked if name in answers}
    return Side(
        facts={name: asked[name].parse(frame.text) for name, frame in found.items()},
        silent={name: probe.limit_s for name, probe in asked.items() if name not in found or not found[name].answered},
    )
