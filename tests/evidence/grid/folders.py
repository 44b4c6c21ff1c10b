"""The folders of tests/cases/evidence that stand in the grid, with the honest folder that is nearest to each fault."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from rlx.model import Link
from tests.conftest import CASES
from tests.evidence.grid.cases import Direction, EditedRun, Source

Cell = tuple[Source, Link]

CAUGHT: Mapping[Cell, Mapping[str, str]] = {
    (Source.EVENTS, Link.ASKED): {
        "chain-other-settings-in-one-replica": "chain-two-replicas",
        "chain-settings-never-told": "chain-two-replicas",
        "chain-split-otherwise": "chain-two-ranks",
    },
    (Source.EVENTS, Link.REACHED): {
        "chain-second-replica-silent": "chain-two-replicas",
        "chain-second-replica-clean": "chain-two-replicas",
        "chain-second-shard-silent": "chain-two-shards",
        "chain-second-rank-misses-a-step": "chain-two-ranks",
        "chain-other-layers-in-one-replica": "chain-two-replicas",
        "chain-one-norm-of-five": "chain-names-below-a-language-model",
        "chain-as-many-other-layers": "chain-names-below-a-language-model",
        "chain-lines-lost": "chain-lines-twice",
        "probed-rank-that-no-sync-reached": "probed-rank-like-the-other",
        "probed-replica-that-no-sync-reached": "probed-second-replica",
        "zero-layers": "healthy-aqn",
    },
    (Source.EVENTS, Link.DRAWN): {
        "chain-same-noise-at-every-step": "chain-healthy",
        "chain-same-noise-in-both-replicas": "chain-two-replicas",
        "chain-other-noise-in-one-rank": "chain-two-ranks",
        "chain-ten-times-the-noise": "chain-factors-as-planned",
        "chain-factor-in-the-payload-only": "chain-factors-as-planned",
        "chain-twice-the-variance-with-factors": "chain-factors-as-planned",
        "chain-twice-the-variance-in-bfloat16": "chain-in-bfloat16",
        "noise-rounded-away": "last-stage-rounded-away",
        "most-noise-rounded-away": "last-stage-mostly-rounded-away",
    },
    (Source.EVENTS, Link.FELT): {
        "probed-noise-one-step-late": "probed-floor-of-a-device",
        "probed-other-noise-after-a-validation": "probed-floor-of-a-device",
        "probed-counted-and-not-changed": "probed-aqn",
        "probed-changed-and-not-counted": "probed-one-element-that-moves-no-score",
        "probed-promised-probe-given-up": "probed-promised-probe-with-one-late-look",
    },
    (Source.EVENTS, Link.LIFTED): {
        "validation-gets-noise": "probed-noise-in-validation-as-declared",
        "validation-keeps-noise": "probed-noise-in-validation-as-declared",
        "probed-validation-not-restored": "probed-sync-inside-a-validation",
        "probed-probe-sees-noise-in-validation": "probed-floor-of-a-device",
        "probed-noise-gone-before-the-next-sync": "probed-engine-that-sleeps",
        "probed-noise-on-noise": "probed-engine-that-sleeps",
        "probed-neither-digests-nor-probe": "probed-probe-given-up",
    },
    (Source.METRICS, Link.REACHED): {"noise-in-another-model": "gap-a-third-as-large"},
    (Source.METRICS, Link.DRAWN): {"noise-adds-up": "gap-with-a-drift"},
    (Source.METRICS, Link.FELT): {
        "gap-not-larger": "gap-odd-at-one-clean-step",
        "gap-falls-all-along": "gap-odd-at-one-border",
        "noise-one-step-late": "gap-odd-at-one-border",
        "noise-one-step-early": "gap-odd-at-one-border",
        "gap-of-bfloat16-without-noise": "gap-of-bfloat16",
        "bypassed-without-effect": "bypassed",
    },
    (Source.METRICS, Link.LIFTED): {"files-disagree": "metrics-with-a-digit-more-than-the-log"},
    (Source.METRICS, Link.TRAINED_ON): {
        "rejection-leaves-little": "rejection-takes-a-little",
        "rejection-not-logged": "weights-only",
        "rejection-without-clean-steps": "rejection-takes-equally",
        "recorded-rejection": "rejection-takes-a-little",
        "gradient-infinite-at-the-end": "gradient-infinite-once",
        "rewards-all-alike": "rewards-at-times-alike",
        "rewards-differ-by-group-only": "rewards-mostly-alike",
        "control-never-trained": "control-loses-one-step",
    },
    (Source.LOG, Link.ASKED): {
        "fork-epoch-aware": "fork-declared-validation-noise",
        "fork-step-stands-still": "fork-declared-validation-noise",
    },
    (Source.LOG, Link.REACHED): {
        "fork-zero-layers": "fork-full-sync",
        "fork-other-layers-at-one-step": "fork-full-sync",
        "fork-noise-in-baseline": "fork-baseline",
    },
    (Source.LOG, Link.DRAWN): {
        "fork-lora-not-restored": "fork-lora-restored",
        "fork-lora-partly-restored": "fork-lora-restored",
        "fork-lora-silent-about-restoring": "fork-lora-restored",
        "fork-per-layer-not-passed-on": "fork-per-layer",
    },
    (Source.LOG, Link.LIFTED): {"fork-silent-about-validation": "fork-declared-validation-noise"},
    (Source.LOG, Link.TRAINED_ON): {"log-ends-in-a-line": "log-alone"},
}

HONEST: Mapping[Cell, tuple[str, ...]] = {
    (Source.EVENTS, Link.REACHED): (
        "chain-two-replicas",
        "chain-two-shards",
        "chain-two-ranks",
        "chain-names-below-a-language-model",
        "chain-other-node-than-expected",
        "chain-lines-twice",
        "probed-rank-like-the-other",
        "probed-second-replica",
        "healthy-aqn",
    ),
    (Source.EVENTS, Link.DRAWN): (
        "chain-healthy",
        "chain-clock-jumps",
        "chain-in-bfloat16",
        "chain-factors-as-planned",
        "last-stage-rounded-away",
        "last-stage-mostly-rounded-away",
    ),
    (Source.EVENTS, Link.FELT): (
        "probed-aqn",
        "probed-aqn-bfloat16",
        "probed-floor-of-a-device",
        "probed-one-element-that-moves-no-score",
        "probed-promised-probe-with-one-late-look",
        "probed-probe-given-up",
    ),
    (Source.EVENTS, Link.LIFTED): (
        "probed-noise-in-validation-as-declared",
        "probed-sync-inside-a-validation",
        "probed-engine-that-sleeps",
    ),
    (Source.METRICS, Link.FELT): (
        "gap-odd-at-one-clean-step",
        "gap-odd-at-one-border",
        "gap-of-bfloat16",
        "bypassed",
    ),
    (Source.METRICS, Link.TRAINED_ON): (
        "rejection-takes-a-little",
        "rejection-takes-equally",
        "rejection-takes-much-at-some-steps",
        "weights-only",
        "gradient-infinite-once",
        "rewards-at-times-alike",
        "rewards-mostly-alike",
        "control-loses-one-step",
        "recorded-bypass",
    ),
    (Source.LOG, Link.ASKED): ("fork-declared-validation-noise",),
    (Source.LOG, Link.REACHED): ("fork-full-sync", "fork-baseline"),
    (Source.LOG, Link.DRAWN): ("fork-lora-restored", "fork-per-layer"),
    (Source.LOG, Link.TRAINED_ON): ("log-alone", "resumed"),
}


def folder_runs() -> Iterator[EditedRun]:
    for (source, link), faults in CAUGHT.items():
        for name, twin in faults.items():
            expected = json.loads((CASES / "evidence" / name / "expected.json").read_text(encoding="utf-8"))
            yield EditedRun(name, source, link, Direction.CAUGHT, expected["status"], (expected["ids"][0],), twin)
    for (source, link), names in HONEST.items():
        for name in names:
            yield EditedRun(name, source, link, Direction.HONEST, "valid")
