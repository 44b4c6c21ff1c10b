"""A registration for tests that need one, and no recipe."""

from __future__ import annotations

from rlx.model import RegisteredArm, Registration

ASKED = Registration(
    name="sums",
    question="Does a larger rate help?",
    metric="val-core/toy/acc/mean@1",
    at="last",
    validations=1,
    test="superiority",
    margin=None,
    seeds=(1, 2, 3),
    spare_seeds=(4,),
    several="dunnett",
    pairing="none",
    secondary=("auc",),
    control="slow",
    arms=(RegisteredArm("slow", (), "a", "e"), RegisteredArm("fast", ("train.lr",), "b", "e")),
)
