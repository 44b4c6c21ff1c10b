"""Many probes as one script, one round trip for all; and their answers taken apart again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlx.model import Cmd
from rlx.planning.probing.probe import Question, Side, script

_END_OF_CONTAINER = "END_OF_CONTAINER"
# timeout(1) says 124; 137 and 143 are the signals that it sends.
_TIMED_OUT = frozenset({124, 137, 143})


@dataclass(frozen=True, slots=True)
class Frame:
    """The answer of one probe. `status` is None if it did not come to its end."""

    text: str
    status: int | None

    @property
    def answered(self) -> bool:
        return self.status is not None and self.status not in _TIMED_OUT


def pack(questions: Iterable[Question], container: str | None = None, inside: Sequence[Question] = ()) -> str:
    """The script for `sh -s MARK`; with a container, it carries the script for that one in itself."""
    calls = _calls(questions) if container is None else _calls_and_enter(questions, container, inside)
    parts = [script("composite.sh"), calls]
    parts.append('printf \'\\n%s time %s\\n\' "$mark" "$(date +%s)"\n')
    return "".join(parts)


def pack_beside(
    command: Cmd, name: str, questions: Iterable[Question], container: str, inside: Sequence[Question]
) -> str:
    """The script of `pack` that runs a command while it asks the probes; what that says is the frame `name`."""
    parts = [
        script("composite.sh"),
        f"{command.raw()} </dev/null 2>&1 | {{\n",
        _calls_and_enter(questions, container, inside),
        framed("$mark", name, "cat\n"),
        '}\nprintf \'\\n%s time %s\\n\' "$mark" "$(date +%s)"\n',
    ]
    return "".join(parts)


def _calls_and_enter(questions: Iterable[Question], container: str, inside: Sequence[Question]) -> str:
    """The container is entered while the host is asked; not while either asks the devices, which are the same."""
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
    """What it says waits in a pipe, so that it does not mix with theirs."""
    return f"{{\n{long}}} | {{\n{calls}cat\n}}\n"


def _enter(container: str, inside: Sequence[Question]) -> str:
    call = Cmd("enter", container, str(total_limit_s(inside))).raw()
    return f"{call} <<'{_END_OF_CONTAINER}'\n{pack(inside)}{_END_OF_CONTAINER}\n"


def framed(mark: str, name: str, commands: str) -> str:
    """Shell commands with a frame round what they say."""
    return f"printf '\\n%s begin {name}\\n' \"{mark}\"\n{commands}printf '\\n%s end {name} 0\\n' \"{mark}\"\n"


def total_limit_s(questions: Iterable[Question]) -> int:
    """The longest that the probes may take together; what reads them waits 3 s longer for each."""
    return 10 + sum(question.probe.limit_s + 4 for question in questions)


def _call(question: Question) -> str:
    probe = question.probe
    shell = "shell=$(command -v bash || echo sh)\n" if probe.bash else "shell=sh\n"
    return f"{shell}{Cmd('probe', probe.name, str(probe.limit_s), script(probe.script), *question.arguments).raw()}\n"


def frames(output: str, mark: str) -> dict[str, Frame]:
    """The answers by the name of the probe."""
    begin = re.compile(rf"^{re.escape(mark)} begin (\S+)\n", re.MULTILINE)
    return {match[1]: _frame(output[match.end() :], match[1], mark) for match in begin.finditer(output)}


def _frame(rest: str, name: str, mark: str) -> Frame:
    end = re.search(rf"^{re.escape(mark)} end {re.escape(name)} (\d{{1,9}})$", rest, re.MULTILINE)
    if end:
        return Frame(rest[: max(end.start() - 1, 0)], int(end[1]))
    nothing_more = re.search(rf"^{re.escape(mark)} ", rest, re.MULTILINE)
    return Frame(rest[: nothing_more.start() - 1] if nothing_more else rest, None)


def outside_frames(text: str, mark: str) -> str:
    """The text without the frames of probes that are in it, of both sides."""
    begin_to_end = rf"^({re.escape(mark)}(?:-inside)?) begin (\S+)\n.*?^\1 end \2 \d+$"
    return re.sub(begin_to_end, "", text, flags=re.MULTILINE | re.DOTALL)


def times(output: str, mark: str) -> list[int]:
    """The host's clock at the beginning and at the end of the script, seconds since 1970."""
    return [int(text) for text in re.findall(rf"^{re.escape(mark)} time (\d{{1,18}})$", output, re.MULTILINE)]


def read_side(questions: Sequence[Question], answers: dict[str, Frame]) -> Side:
    """Each answer read by the probe that asked for it."""
    asked = {question.probe.name: question.probe for question in questions}
    found = {name: answers[name] for name in asked if name in answers}
    return Side(
        facts={name: asked[name].parse(frame.text) for name, frame in found.items()},
        silent={name: probe.limit_s for name, probe in asked.items() if name not in found or not found[name].answered},
    )
