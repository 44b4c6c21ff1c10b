"""Call supervise.sh on a host. It is sent on stdin, so a host needs nothing but a POSIX shell."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from rlx.errors import RlxError
from rlx.hosts import Completed, transport_for
from rlx.hosts.script_parts import ScriptPart, run_part, slim
from rlx.model import Place
from rlx.model.run_dir import SUPERVISE_FILE
from rlx.resources import payload_folder
from rlx.schedulers.registry import LEASES, PACKAGES, shell_parts

_UNKNOWN_SCHEDULER = 3
_PROGRAM = re.compile(r"^program (\w+)\.py$", re.MULTILINE)
# Comments, and descriptions of one line.
_UNREAD = re.compile(r"\s*(#|\"\"\".*\"\"\"$)")
_SHARED = ("ask_docker.sh", "docker_run.sh")


def layout() -> str:
    """Return the part that names the files of a run, to precede other scripts."""
    return (payload_folder() / "supervise" / "05-layout.sh").read_text(encoding="utf-8")


@cache
def script(scheduler: str = LEASES) -> str:
    """Join the parts in the order of their names, with the docker scripts, into the one file that is sent.

    It always has the schedulers that come with rlx; another one only if it is named.
    """
    own = (payload_folder() / "supervise").glob("*.sh")
    of_schedulers = (path for name in dict.fromkeys([*PACKAGES, scheduler]) for path in shell_parts(name))
    names, *parts = sorted([*own, *of_schedulers], key=lambda path: path.name)
    parts = [names, *(payload_folder() / name for name in _SHARED), *parts]
    return slim("\n".join(map(_with_programs, parts))).decode()


def _with_programs(path: Path) -> str:
    """Return a part in which each line `program NAME.py` has become a function NAME that runs this file beside it.

    Its lines begin with a bar there: `slim` takes the indentation of all others.
    """

    def function(line: re.Match[str]) -> str:
        name, text = line[1], (path.parent / f"{line[1]}.py").read_text(encoding="utf-8")
        kept = (each for each in text.splitlines() if each and not _UNREAD.match(each))
        lines = "\n".join(f"|{each}" for each in kept)
        program = f"{name}_text() {{\nsed 's/^|//' <<'END_OF_{name}'\n{lines}\nEND_OF_{name}\n}}\n"
        return f'{program}{name}() {{ "$PYTHON" -I -S -c "$({name}_text)" "$@"; }}\n'

    return _PROGRAM.sub(function, path.read_text(encoding="utf-8"))


def beside(name: str) -> bytes:
    """Return a script of the payload, preceded by the parts that name the files and processes of a run."""
    folder = payload_folder()
    parts = [
        folder / "supervise" / part for part in ("05-layout.sh", "10-basics.sh", "15-ray-jobs.sh", "20-containers.sh")
    ]
    return slim("\n".join(path.read_text(encoding="utf-8") for path in (*parts, folder / name)))


def call(
    place: Place,
    *arguments: str,
    timeout_s: float = 30.0,
    accept_codes: tuple[int, ...] = (0,),
    scheduler: str = LEASES,
) -> str:
    """Return what supervise.sh prints there. Raises RlxError with its error message if it fails."""
    sent = ScriptPart(script(scheduler).encode(), arguments)
    completed = run_part(transport_for(place), sent, timeout_s)
    named = completed.out.decode(errors="replace").strip() if completed.code == _UNKNOWN_SCHEDULER else ""
    if named and named not in PACKAGES and scheduler in PACKAGES:
        # A run of another distribution's scheduler: send its part, too.
        return call(place, *arguments, timeout_s=timeout_s, accept_codes=accept_codes, scheduler=named)
    return answer(place, arguments[0], completed, accept_codes)


def part(*arguments: str) -> ScriptPart:
    return ScriptPart(script().encode(), arguments)


def answer(place: Place, verb: str, completed: Completed, accept_codes: tuple[int, ...] = (0,)) -> str:
    """Return what a call printed. Raises RlxError with its error message if it failed."""
    if completed.code not in accept_codes:
        complaint = completed.err.decode(errors="replace").strip() or f"exit {completed.code}"
        raise RlxError(f"{place.host}: {SUPERVISE_FILE} {verb} failed: {complaint}")
    return completed.out.decode(errors="replace")
