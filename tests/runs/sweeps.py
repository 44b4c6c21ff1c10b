"""A sweep in front of the rig's client: a recipe whose runs are a few lines of shell, and hosts that count them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rlx.backends import registry
from rlx.errors import RlxError
from tests.cli.support import rlx_here
from tests.rig import Host, Rig

RECIPE = """
version: 1
name: sums
backend: {kind: toy, version: "1.0"}
model: {path: /nowhere/model}
data: {train: /nowhere/train, val: /nowhere/val, train_rows: 8, val_rows: 100, max_prompt_tokens: 8,
       max_response_tokens: 8}
reward: gsm8k
train: {batch_size: 4, mini_batch_size: 4, micro_batch_size: 4, steps: 3, lr: 0.25}
rollout: {engine: cpu, n: 2, log_prob_micro_batch_size: 4}
layout: {device: cpu, devices_per_node: 1}
eval: {every: 3}
seed: 11
control: slow
arms:
  slow: {}
  fast: {train: {lr: 0.75}}
"""
EXPERIMENT = """
experiment:
  question: Does a larger rate help?
  primary: {metric: val-core/toy/acc/mean@1}
  test: superiority
  seeds: 4
"""
BEGAN, GO = "/srv/began", "/srv/go"


@dataclass
class Sweep:
    """`rlx` as the client's user types it, in this process."""

    rig: Rig
    recipe: Path
    hosts: tuple[Host, ...]
    said: list[str] = field(default_factory=list)

    @property
    def names(self) -> str:
        return ",".join(host.name for host in self.hosts)

    def rlx(self, *words: object, code: int | None = 0) -> str:
        """What it prints; `said` gets what it narrates. `code`: None where it does not matter."""
        typed = [str(word) for word in words]
        done = self.rig.client.call(lambda: rlx_here(typed))
        said, exit_code = done.stderr, done.exit_code
        if isinstance(done.exception, RlxError):
            said, exit_code = f"{said}\n{done.exception.message}\n{done.exception.hint}", done.exception.exit_code
        elif done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        self.said = said.splitlines()
        assert code in (None, exit_code), f"{done.stdout}\n{said}"
        return done.stdout

    def launch(self, *words: object, code: int = 0) -> list[str]:
        return self.rlx("launch", self.recipe, "--host", self.names, "--spread", *words, code=code).split()

    def rows(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.rlx("status", "--json", *words))["runs"]
        return found

    def tend(self) -> None:
        """Wait for a moment: what waits moves where a host is free. Its exit code is that of runs which go on."""
        self.rlx("wait", "--timeout", "0s", code=11)

    def heard(self, text: str) -> bool:
        return any(text in line for line in self.said)


def hold_runs(host: Host) -> None:
    """Each run writes down that it began, and goes on once the host has a file GO."""
    host.wrap_program("seq", f'echo "$RLX_RUN" >>{BEGAN}', f"while [ ! -e {GO} ]; do sleep 0.05; done")


def fill_up(host: Host) -> None:
    """The disk of its runs has hardly any room."""
    host.path("/root/rlx").mkdir()
    host.limit_disk("/root/rlx", 1 << 20)


def let_go(*hosts: Host) -> None:
    for host in hosts:
        host.path(GO).touch()


def began(host: Host) -> list[str]:
    """The ids of the runs that began there, each as often as it did."""
    file = host.path(BEGAN)
    return file.read_text(encoding="utf-8").split() if file.exists() else []


@pytest.fixture
def sweep_of(
    new_rig: Callable[[int], Rig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], Sweep]]:
    monkeypatch.setitem(registry.PACKAGES, "toy", "tests.backends.toy")
    recipe = tmp_path / "sums.yaml"
    recipe.write_text(RECIPE, encoding="utf-8")

    def make(count: int) -> Sweep:
        rig = new_rig(count)
        for host in rig.hosts:
            hold_runs(host)
        return Sweep(rig, recipe, tuple(rig.hosts))

    yield make
