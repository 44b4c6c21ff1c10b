"""Conclude from the processes of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlx.model import RunState


@dataclass(frozen=True, slots=True)
class Job:
    number: str
    lives: bool

    def state_before_start(self, *, just_sent: bool) -> RunState:
        return RunState.STARTING if self.lives or just_sent else RunState.LOST

    def state_without_record(self, *, lives: bool) -> RunState | None:
        return None if self.lives or lives else RunState.LOST

    def detail(self, state: RunState, *, started: bool, stop_asked: bool) -> str:
        return f"job {self.number} at once"

    def cut_words(self, cut: str) -> str:
        return ""


def read_answers(lines: Sequence[str]) -> Mapping[str, bool]:
    return {number: word == "lives" for number, word in (line.split() for line in lines)}


def find_job(run_id: str, attempt: int, number: str, created: float, answers: Mapping[str, bool]) -> Job:
    return Job(number, answers.get(number, False))
