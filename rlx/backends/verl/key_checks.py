"""Each key on the command line against the version's own list: Hydra would refuse it minutes later, or nobody would."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.overrides import Override, Rendering, own_overrides, rendered
from rlx.backends.verl.renames import find_rename, removed_value
from rlx.model import Finding, Severity

# Without these rlx cannot read what the run did.
_EVIDENCE_KEYS = frozenset(
    {
        "trainer.logger",
        "trainer.validation_data_dir",
        "actor_rollout_ref.rollout.calculate_log_probs",
    }
)


def own_key_findings(rendering: Rendering) -> Iterator[Finding]:
    """Check the recipe's own `overrides`."""
    written = {override.key: override for override in rendered(rendering)}
    for override in own_overrides(rendering):
        yield from _key_findings(override, rendering)
        if override.key in written:
            yield _replacement(override, written[override.key])


def rendered_key_findings(rendering: Rendering) -> Iterator[Finding]:
    """Check the keys that rlx writes: a fork may lack some, and a version may lack a feature."""
    for override in rendered(rendering):
        if not override.prefix and override.key not in rendering.table:
            yield Finding(
                "RLX010",
                Severity.ERROR,
                f"{override.source}: verl {rendering.table.version} has no key {override.key}",
                f"remove {override.source}, or use a version of verl that has it",
                where=_origin(rendering, override),
            )


def _key_findings(override: Override, rendering: Rendering) -> Iterator[Finding]:
    version, where = rendering.version, _origin(rendering, override)
    if rename := find_rename(override.key, rendering.table, version):
        severity = Severity.ERROR if rename.ignored else Severity.WARNING
        message = f"{override.source}: verl {version} reads {rename.new} instead"
        yield Finding("RLX011", severity, message, f"write {rename.new}", where)
    elif fix := removed_value(override.key, override.value, version):
        message = f"{override.source}: verl {version} no longer takes {override.value!r}"
        yield Finding("RLX011", Severity.ERROR, message, fix, where)
    elif override.key not in rendering.table:
        yield _unknown(override, rendering, where)
    elif override.prefix == "+" and override.key in rendering.table.defaults:
        message = f"{override.source}: the key exists, and + only adds new ones"
        yield Finding("RLX010", Severity.ERROR, message, f"write {override.key}", where)


def _unknown(override: Override, rendering: Rendering, where: str) -> Finding:
    message = f"{override.source}: verl {rendering.table.version} has no key {override.key}"
    if override.prefix.startswith("+"):
        return Finding("RLX010", Severity.NOTE, f"{message}; it is added as written", "", where)
    nearest = rendering.table.nearest(override.key)
    hint = f"did you mean {', '.join(nearest)}? " if nearest else ""
    fix = f"{hint}To add a key on purpose, write +{override.key}"
    return Finding("RLX010", Severity.ERROR, message, fix, where)


def _replacement(override: Override, written: Override) -> Finding:
    message = f"{override.source} replaces what rlx writes for {written.source}"
    if override.key in _EVIDENCE_KEYS and override.value != written.value:
        fix = "remove it: rlx reads there what the run did, and will not vouch for the result without"
        return Finding("RLX013", Severity.WARNING, message, fix)
    return Finding("RLX013", Severity.NOTE, message)


def _origin(rendering: Rendering, override: Override) -> str:
    return rendering.resolved.origins.get(override.source, "")
