"""Waivers: findings of a run that a person accepted after its end, with a reason and a name.

Only a judgement can be waived (`Charge.can_be_waived`): no contradiction, and nothing that is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rlx.evidence.verdict import Charge, VerdictStatus, counted
from rlx.model import Severity
from rlx.model.verdict_rules import is_changed


@dataclass(frozen=True, slots=True)
class Waiver:
    """The finding of this id, in this attempt of the run, was accepted. `at`: when, in UTC.

    `rules`: the version of the rules that made it then. Where a later one made it of other runs, it does not hold.
    """

    id: str
    reason: str
    by: str
    at: str
    rules: int
    attempt: str


def waivable(charges: Iterable[Charge]) -> tuple[str, ...]:
    """Return the ids of the findings that may be waived: each charge of the id must be a judgement."""
    found = list(charges)
    firm = {charge.finding.id for charge in found if not charge.can_be_waived}
    return tuple(dict.fromkeys(charge.finding.id for charge in found if charge.finding.id not in firm))


def with_waivers(charges: Sequence[Charge], waivers: Iterable[Waiver]) -> tuple[list[Charge], tuple[str, ...]]:
    """Return the charges with the waived ones as notes, and the ids of these."""
    allowed = waivable(charges)
    held = {each.id: each for each in waivers if each.id in allowed and not is_changed(each.id, each.rules)}
    found = [_waived(charge, held[charge.finding.id]) if charge.finding.id in held else charge for charge in charges]
    return found, tuple(sorted(held))


def waived_words(ids: Sequence[str]) -> str:
    """`, with 2 findings waived (RLX705 and RLX706)`; "" without any."""
    return f", with {counted(len(ids), 'finding')} waived ({' and '.join(ids)})" if ids else ""


def _waived(charge: Charge, waiver: Waiver) -> Charge:
    finding = charge.finding
    who = f"waived by {waiver.by} on {waiver.at[:10]}, rules {waiver.rules}, because: {waiver.reason}"
    message = f"{finding.message} ({who})"
    return Charge(
        VerdictStatus.VALID, replace(finding, severity=Severity.NOTE, message=message, fix="", waived=waiver.reason)
    )
