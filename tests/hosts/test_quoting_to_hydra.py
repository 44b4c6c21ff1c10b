"""Arguments and variables survive ssh, docker exec, sh, bash and Hydra: a small round of benchmarks/quoting.py."""

from __future__ import annotations

from benchmarks.quoting import Case, cases, failures
from tests.rig import Container
from tests.rig.rig import Rig

_KNOWN = (
    Case(("it's", "\udcff\x81"), ("-n", "--", "", '"$(id)"', "`id`", "a\nb", "\\", "*", "~", "${HOME}", "%b"), "a\\"),
    Case(("\n\n", "a=b"), ("\\0101", "\udce9", "!!"), {"k": ["it's \\' \"x\" \\\\", None, "null"]}),
)


def test_whatever_is_sent_arrives(docker_rig: Rig, container: Container) -> None:
    assert failures(docker_rig, container, [*_KNOWN, *cases(seed=20, count=118)]) == []
