"""Random arguments and variables on their way to a training: python benchmarks/quoting.py [--cases N] [--seed S]

Each case goes the way of a launch: ssh, docker exec, the sh of the container, a file of exports as secrets have it, the
bash of launch.sh, and for one argument Hydra's own parser. What arrives must be what was sent, byte for byte. Host and
container are those of tests/rig (needs root). Prints the cases and the failures, and exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rlx.backends.shared.overrides import hydra_value
from rlx.hosts import transport_for
from rlx.model import Cmd, Place
from rlx.runs.launching.shipment import env_file
from tests.rig.docker import Container
from tests.rig.rig import Rig

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]

BATCH = 40
"""Cases in one command: all of them must fit into one argument, 128 kB in Linux, quoted twice."""

_PRINT = r"""printf '%s\0' "$#" "$A" "$B" "$@" """

# What a launch.sh hands to the training: Hydra's parser, and what it says the value is.
_HYDRA = r"""
import json, os, sys
from hydra.core.override_parser.overrides_parser import OverridesParser

def plain(value):
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    return str.__str__(value.text) if hasattr(value, "text") else value

parser = OverridesParser.create()
parts = iter(sys.stdin.buffer.read().split(b"\0")[:-1])
for count in parts:
    first, second, override, *words = [next(parts) for _ in range(2 + int(count))]
    value = plain(parser.parse_override(os.fsdecode(override)).value())
    print(json.dumps([first.hex(), second.hex(), [word.hex() for word in words], value]))
"""

_NASTY = "'\"\\$`{}[]():;=,|&<>*?!~#%^@+- \t\n\r/.a1Z\x01\x7fé漢🙂"
_LEAVES: tuple[Value, ...] = (None, True, False, 0, -7, 1 << 40, 0.1, -1e-30, "null", "True", "5", "1e3", "", "nan")


@dataclass(frozen=True)
class Case:
    """Two variables and some arguments of any bytes but NUL, and a value for a key of Hydra's."""

    variables: tuple[str, str]
    words: tuple[str, ...]
    value: Value

    def fragment(self) -> str:
        """What sh runs in the container."""
        exports = env_file(dict(zip("AB", self.variables, strict=True)))
        show = Cmd("bash", "-c", _PRINT, "print", f"a.b={hydra_value(self.value)}", *self.words)
        return f"(\n{exports}{show.raw()}\n)\n"

    def arrived_as(self, line: str) -> bool:
        first, second, words, value = json.loads(line)
        sent = [os.fsencode(text).hex() for text in (*self.variables, *self.words)]
        return [first, second, *words] == sent and value == self.value and type(value) is type(self.value)


def cases(seed: int, count: int) -> Iterator[Case]:
    """The same ones for the same seed."""
    draw = random.Random(seed)
    for _ in range(count):
        variables = (_any_bytes(draw), _any_bytes(draw))
        yield Case(variables, tuple(_any_bytes(draw) for _ in range(draw.randrange(5))), _value(draw, depth=2))


def _any_bytes(draw: random.Random) -> str:
    """Text, or bytes that are none, as Python holds them."""
    if draw.random() < 0.5:
        return _text(draw)
    return os.fsdecode(bytes(draw.randrange(1, 256) for _ in range(draw.randrange(20))))


def _text(draw: random.Random) -> str:
    return "".join(draw.choice(_NASTY) for _ in range(draw.randrange(16)))


def _value(draw: random.Random, depth: int) -> Value:
    kind = draw.random()
    if depth and kind < 0.15:
        return [_value(draw, depth - 1) for _ in range(draw.randrange(4))]
    if depth and kind < 0.3:
        return {f"k{number}": _value(draw, depth - 1) for number in range(draw.randrange(1, 4))}
    return _text(draw) if kind < 0.8 else draw.choice(_LEAVES)


def failures(rig: Rig, container: Container, chosen: list[Case]) -> list[Case]:
    """Send them in batches, and return those that arrived as something else, or not at all."""
    transport = transport_for(Place("h1", "h1", inside=container.id))
    failed = []
    for start in range(0, len(chosen), BATCH):
        batch = chosen[start : start + BATCH]
        script = "".join(case.fragment() for case in batch)
        command = Cmd("sh", "-c", f'{{ {Cmd("sh", "-c", script).raw()}; }} | exec "$@"', "rlx", "python3", "-c", _HYDRA)
        done = rig.client.call(lambda command=command: transport.run(command, timeout_s=120))
        lines = done.out.decode().splitlines()
        if len(lines) != len(batch):
            print(done.err.decode(errors="replace")[-2000:], file=sys.stderr)
        arrived = [*lines, *["[0, 0, [], 0]"] * len(batch)]
        failed += [case for case, line in zip(batch, arrived, strict=False) if not case.arrived_as(line)]
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chosen = list(cases(options.seed, options.cases))
    with Rig(1) as rig:
        container = rig.host("h1").docker.container("rl", python=True)
        began = time.monotonic()
        failed = failures(rig, container, chosen)
    print(f"{len(chosen)} cases (seed {options.seed}), {len(failed)} failures, {time.monotonic() - began:.0f} s")
    for case in failed[:5]:
        print(case)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
