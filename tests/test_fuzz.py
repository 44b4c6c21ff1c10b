"""The fuzz of every parser that reads from outside: it runs, a few inputs find nothing, and it would notice."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.mangled import mangled
from benchmarks.outside_parsers import PARSERS
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.slow

PLANTED = """
import signal, sys
sys.path[:0] = [{repository!r}]
from benchmarks import fuzz, outside_parsers
from benchmarks.outside_parsers import Parser

def crashes(data, folder):
    if len(data) % 5 == 0:
        raise KeyError("planted")

def hangs(data, folder):
    while len(data) % 7 == 0:
        pass

def grows(data, folder):
    if len(data) % 9 == 0:
        bytearray(300 << 20)

def dies(data, folder):
    if len(data) % 11 == 0:
        signal.raise_signal(signal.SIGKILL)

fuzz.LIMIT_S = 1
fuzz.__file__ = __file__
outside_parsers.PARSERS = {{
    f.__name__: Parser(f.__name__, ("rlx/errors.py",), lambda: [b"step: 12, loss: 0.5"], f)
    for f in (crashes, hangs, grows, dies)
}}
sys.exit(fuzz.main())
"""


def fuzz(program: str | Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(program), *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, encoding="utf-8")


# A process for each parser, one after the other: a minute of a machine of one's own, ten of a busy one.
@pytest.mark.timeout(1500)
def test_a_few_inputs_of_each_parser_find_nothing(tmp_path: Path) -> None:
    # The inputs end it. The minutes are shared out among the parsers, and would cut a slow one short.
    done = fuzz("benchmarks/fuzz.py", "--inputs", "15", "--minutes", "200", "--keep", str(tmp_path / "kept"))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    rows = [line.split(" | ") for line in done.stdout.splitlines()[2:] if line.startswith("| ")]
    assert [row[0].removeprefix("| ") for row in rows] == list(PARSERS)
    assert {row[1] for row in rows} == {"15"}
    assert not (tmp_path / "kept").exists()


def test_it_notices_a_crash_a_hang_and_memory(tmp_path: Path) -> None:
    program = tmp_path / "planted.py"
    program.write_text(PLANTED.format(repository=str(REPOSITORY)), encoding="utf-8")
    done = fuzz(program, "--inputs", "60", "--minutes", "5", "--keep", str(tmp_path / "kept"))
    assert done.returncode == 1, done.stderr
    found = {line.split(",")[0]: line for line in done.stdout.splitlines() if ", input " in line}
    assert "KeyError" in found["crashes"]
    assert "TookTooLong" in found["hangs"]
    assert "MiB" in found["grows"]
    assert not re.search("Error|TookTooLong|MiB", found["dies"]), "it left no word"
    assert {path.name.split("-")[0] for path in (tmp_path / "kept").iterdir()} == {"crashes", "hangs", "grows", "dies"}


@pytest.mark.parametrize("name", PARSERS)
def test_inputs_follow_from_the_seed(name: str) -> None:
    seeds = PARSERS[name].seeds()
    assert seeds and all(isinstance(seed, bytes) for seed in seeds)
    one, again, other = (mangled(seeds, random.Random(seed)) for seed in (5, 5, 6))
    assert one == again
    assert len({mangled(seeds, random.Random(seed)) for seed in range(20)}) > 10, other
