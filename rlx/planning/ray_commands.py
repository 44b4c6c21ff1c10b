"""Find where a script hands a job to a Ray, or starts or joins one on a port that others may use."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from rlx.errors import UsageError
from rlx.shell_reader import Unknown, Word, read_script, wrappers

RAY_JOB, RAY_START = "RLX046", "RLX047"
"""The ids of the findings."""
# How they look where nothing is known but words: in a substitution, whose commands the reader does not follow, and
# anywhere in a script that it cannot read.
_SUBSTITUTED = r"(?:\$\(|`)[^)`$]*"
_WORDS = {RAY_JOB: r"\bray\s+job\s+submit\b", RAY_START: r"\bray\s+start\b(?!.*\s--port[=\s]\s*0\b)"}
# What the script finds out itself when it runs, and no value that it was given: a free port is found so.
_COMPUTED = re.compile(r"\$\((?!\()|`|\$\$|\bRANDOM\b|^read ")


def ray_lines(text: str, name: str, lines: Sequence[tuple[int, str]]) -> Mapping[str, frozenset[int]]:
    """The numbers of such lines, by the id of their finding. `lines` are all lines, continued ones as one."""
    starts = [number for number, _ in lines]
    found: dict[str, set[int]] = {RAY_JOB: set(), RAY_START: set()}
    before = _SUBSTITUTED
    try:
        for kind, line in _commands(text, name):
            found[kind].add(starts[max(0, bisect_right(starts, line) - 1)])
    except UsageError:
        before = ""
    for kind, words in _WORDS.items():
        pattern = re.compile(before + words)
        found[kind] |= {number for number, line in lines if pattern.search(line)}
    return {kind: frozenset(numbers) for kind, numbers in found.items()}


def _commands(text: str, name: str) -> Iterator[tuple[str, int]]:
    """Each such command with its line. Raises UsageError for a script that cannot be read."""
    has_own = False
    for inner in wrappers.programs(read_script(text, name), name):
        words, line = inner.command.words, inner.command.line
        texts = [word.text() for word in words[:3]]
        texts[0] = texts[0].rpartition("/")[2]
        if wrappers.RAY_JOB in inner.wrappers or " ".join(texts) == wrappers.RAY_JOB:
            yield RAY_JOB, line
        if texts[:2] == ["ray", "start"]:
            is_head = _option(words, "--address") is None
            if not _is_own(words, "--port" if is_head else "--address") or not (is_head or has_own):
                yield RAY_START, line
            has_own = has_own or is_head


def _is_own(words: Sequence[Word], option: str) -> bool:
    """Tell whether the port is one that Ray chooses, or that the script computes; without one it is Ray's usual one."""
    port = _option(words, option)
    if port is None:
        return False
    # Of an address the port is what comes last.
    last = port.parts[-1] if port.parts else ""
    return bool(_COMPUTED.search(last.source)) if isinstance(last, Unknown) else last == "0"


def _option(words: Sequence[Word], option: str) -> Word | None:
    """The value of an option, the last one if it is there several times; None without it."""
    value = None
    for i, word in enumerate(words):
        first = word.parts[0] if word.parts else ""
        if first == option:
            value = words[i + 1] if i + 1 < len(words) else None
        elif isinstance(first, str) and first.startswith(f"{option}="):
            rest = first.removeprefix(f"{option}=")
            value = Word((*([rest] if rest else []), *word.parts[1:]))
    return value
