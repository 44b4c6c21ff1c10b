"""No script, however mangled, ends what reads it with anything but a sentence, or keeps it busy.

`python benchmarks/fuzz.py --only launches "lines of scripts"` tries as many more as there is time for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.mangled import mangled
from rlx.api.recipe_from import recipe_from
from rlx.errors import RlxError
from rlx.planning.script_lines import findings_of
from tests.conftest import CASES

pytestmark = pytest.mark.slow

SEEDS = [path.read_bytes() for kind in ("init-from", "shell-reader") for path in sorted(CASES.glob(f"{kind}/**/*.sh"))]
SCRIPTS = ["\n".join(seed.decode().splitlines()) for seed in SEEDS]
TRAINS = "python -m verl.trainer.main_ppo "
GROWN = f"V=${{U}}{'a' * 500}\n" + "V=$V$V\n" * 6
EVIL = {
    "no UTF-8": f"{TRAINS}a=\udcff",
    "a lone surrogate": rf"{TRAINS}data.x=$'\ud800'",
    "marks of the reader": rf"x=$'\ue0009\ue001'; {TRAINS}a=$x",
    "a parameter of 5,000 digits": f"f() {{ {TRAINS}a=${{{'9' * 5000}}}; }}; f",
    "negations": f"[ {'! ' * 3000}x ] && y; test {'! ' * 3000}x && y",
    "alternatives of a test": f"test x {'-o x ' * 3000} && y",
    "alternatives in brackets": f"[ x {'-o x ' * 3000} ] && y",
    "alternatives of an if": f"if a; then :; {'elif [ $(b) ]; then :; ' * 1500}fi",
    "environments": GROWN + "".join(f"export V{i}=$V\n" for i in range(60)) + "for i in {1..900}; do run; done",
    "a list that doubles": f"A=({'x ' * 20_000})\n" + 'A+=("${A[@]}")\n' * 12 + TRAINS + "${A[@]}",
    "a long value": f"{TRAINS}data.a={'a' * 60_000}",
    "a long word": f"{TRAINS}{'a-' * 30_000}",
    "shells in loops": "for i in {1..900}; do bash -c 'for j in {1..900}; do bash -c \"run $i\"; done'; done",
    "arithmetic": f"x=$((1/0)); y=$((1%0)); z=$((2**999999999)); w=$((1<<999999999)); {TRAINS}a=$x",
    "braces": "for i in {1..999999999}; do x; done; echo {1..99999}{1..99999}",
    "words of one command": f"srun {'x ' * 30_000}python",
    "kill": "kill " * 12_000,
    "a number": f"{TRAINS}data.train_batch_size={'9' * 5000} trainer.nnodes=-0 trainer.n_gpus_per_node=1e400",
    "a number beyond floats": f"{TRAINS}actor_rollout_ref.actor.optim.lr={'9' * 400} data.seed={'9' * 400}",
    "a name longer than files have": f"python cli/train_grpo.py --config-name {'x' * 300}",
    "nested values": f"{TRAINS}a={'[' * 20_000}",
    "nested documents": "cat <<E\n" + "$(" * 3000 + "\nE\n",
}
# As large as `rlx launch --script` takes them.
LARGE = {
    "kill": "kill " * 200_000,
    "children": f"{'pkill ' * 150_000} -P $x",
    "flags": f"rm -{'r' * 1_000_000}",
    "redirections": "x>" * 500_000,
    "starts of Ray": "ray start " * 100_000,
    "substitutions": f"{'$(' * 500_000}ray start",
    "continued lines": "\\\n" * 500_000,
}


def read(text: str) -> None:
    for reader in (lambda: recipe_from(f"{text}\n"), lambda: list(findings_of(text, "run.sh"))):
        _refuses_at_most(reader)


def _refuses_at_most(reader: Callable[[], object]) -> None:
    begun = time.process_time()
    try:
        reader()
    except RlxError as refusal:
        assert refusal.message
    assert time.process_time() - begun < 30


@pytest.mark.parametrize("kind", EVIL)
def test_what_is_made_to_break_it(kind: str) -> None:
    read(EVIL[kind])


@pytest.mark.parametrize("kind", LARGE)
def test_lines_of_a_large_script(kind: str) -> None:
    _refuses_at_most(lambda: list(findings_of(LARGE[kind], "run.sh")))


@pytest.mark.parametrize("part", range(4))
def test_mangled_scripts(part: int) -> None:
    for number in range(50):
        data = mangled(SEEDS, random.Random(f"{part}:{number}"))
        read(data.decode("utf-8", "replace")[:100_000])


@given(st.sampled_from(SCRIPTS), st.data())
def test_scripts_with_pieces_of_others(script: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(script)))
    piece = data.draw(
        st.sampled_from(("${", "$((", "`", "'", '"', "<<E\n", "[[ ", "{1..9}", "|| f ", "\\", ")", "}", "\0", "\n"))
    )
    other = data.draw(st.sampled_from(SCRIPTS))
    begin = data.draw(st.integers(0, len(other)))
    read(script[:at] + piece + other[begin : begin + data.draw(st.integers(0, 200))] + script[at:])
