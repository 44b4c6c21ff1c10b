"""Say how far along the chain of evidence a run can be shown at all, by what its plan promised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.promised_noise import BUILTIN, promise_of
from rlx.evidence.verdict import Charge, remark
from rlx.model import Link, NoiseSchedule, Severity


def check(given: CheckInput) -> Iterator[Charge]:
    """Remark on links that were never promised, so that every output names them; of what was shown it says nothing."""
    if given.noise is None:
        return
    for words in _links(given.noise.schedule, has_recipe=given.has_recipe):
        what = f"at most this can be shown of the noise: {words}"
        yield remark("RLX679", Severity.NOTE, what, "aqn.provider: payload, with a rollout that rlx can probe")


def sentence(noise: NoiseSchedule) -> Iterator[str]:
    """`shown as far as: drawn; felt and lifted cannot be shown by this fork`; nothing where all links are promised.

    Only for a run whose promised links are all shown.
    """
    for words in _links(noise):
        yield f"shown as far as: {words}"


def _links(noise: NoiseSchedule, *, has_recipe: bool = True) -> Iterator[str]:
    promised = promise_of(noise).links
    lacking = [link for link in Link if link not in promised]
    if promised and lacking:
        what = "by this fork" if noise.provider == BUILTIN else "by this back-end" if has_recipe else "without a recipe"
        yield f"{', '.join(promised)}; {_listed(lacking)} cannot be shown {what}"


def _listed(links: Sequence[Link]) -> str:
    return " and ".join(filter(None, (", ".join(links[:-1]), links[-1])))
