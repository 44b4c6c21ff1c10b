"""Tell how a command ends, as far as it is known."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """RAN is a program's, of which a script expects that it does its work; MAYBE is a test's."""

    YES = "yes"
    NO = "no"
    MAYBE = "maybe"
    RAN = "ran"


YES, NO, MAYBE, RAN = Status


def of_truth(value: bool | None) -> Status:
    return MAYBE if value is None else YES if value else NO


def opposite(status: Status) -> Status:
    return {YES: NO, NO: YES}.get(status, MAYBE)
