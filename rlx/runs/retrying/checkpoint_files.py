"""Ask a host which files lie below the checkpoints of a run. What they mean is known to the run's back-end."""

from __future__ import annotations

import re

from rlx.hosts.host_errors import reading_answer
from rlx.model.attempt_lineage import CheckpointFiles
from rlx.runs import supervisor
from rlx.runs.run import RunRef

_TIMEOUT_S = 120.0
_LINE = re.compile(r"(text|file|tail) (\S*) (.+)")


def read_checkpoint_files(ref: RunRef) -> CheckpointFiles:
    """Raises RlxError where the host does not answer, or the run directory is gone."""
    text = supervisor.call(ref.place, "checkpoints", ref.remote_dir, timeout_s=_TIMEOUT_S)
    with reading_answer(ref.host, "rlx retry"):
        return parse_checkpoint_files(text)


def parse_checkpoint_files(text: str) -> CheckpointFiles:
    """Raises ValueError for a size that is none. A name with a line end is no file of a checkpoint."""
    lines = [found.groups() for line in text.splitlines() if (found := _LINE.fullmatch(line))]
    return CheckpointFiles(
        sizes={path.removeprefix("./"): int(size) for kind, size, path in lines if kind == "file"},
        tails={path.removeprefix("./"): tail for kind, tail, path in lines if kind == "tail"},
        texts={name: words for kind, name, words in lines if kind == "text"},
    )
