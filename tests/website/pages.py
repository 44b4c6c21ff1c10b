"""What pages show: the commands that they give, and consoles with what the commands print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.conftest import REPOSITORY
from website.pages import DOCS, written

README = REPOSITORY / "README.md"
# English pages that users read; those below docs/dev/ are for contributors.
FOR_USERS = [README, *sorted(DOCS.glob("*.md"))]
CHINESE = {"README": REPOSITORY / "README.zh.md", **written("zh")}
ENGLISH = {"README": README, **written("en")}
PAIRS = sorted(CHINESE.keys() & ENGLISH.keys())
_COMMAND = re.compile(r"(?m)^(?: {4}|\$ )(rlx .*?)(?:  +#.*)?$")
_QUOTED = re.compile(r"(?m)^```python\n(?:(?!```).*\n)*|^    \$ rlx .*\n(?:(?:    .*)?\n)*")
_BLOCK = re.compile(r"(?ms)^```(?:console|bash)\n(.*?)^```$|((?:^ {4}.*?$\n?)+)")
_CONSOLE = re.compile(r"(?ms)^```console\n(.*?)^```$")


class Shown(NamedTuple):
    """A command of a console, and the lines that the page shows of its output."""

    command: str
    lines: list[str]


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def commands(page: Path) -> list[str]:
    """What can be typed as it stands, up to a `&&`; neither a list of options nor the first of two lines."""
    found = (command.partition(" && ")[0] for command in _COMMAND.findall(text(page)))
    return [command for command in found if " [" not in command and not command.endswith("\\")]


def console(page: Path) -> list[Shown]:
    """All consoles of a page as one, in order."""
    shown = []
    for line in "".join(_CONSOLE.findall(text(page))).splitlines():
        if line.startswith("$ "):
            shown.append(Shown(line[2:], []))
        else:
            shown[-1].lines.append(line)
    return shown


def quoted(page: Path) -> list[str]:
    """What a page has typed in Python, or at an indented prompt, with what came of it."""
    return [block.strip() for block in _QUOTED.findall(text(page))]


def typed(page: Path) -> list[str]:
    """Return the command lines of rlx in the code blocks of a page; of a synopsis the first choice of each option."""
    blocks = "\n".join(code or indented for code, indented in _BLOCK.findall(text(page)))
    found: list[str] = []
    for line in blocks.replace("\\\n", " ").splitlines():
        line = re.sub(r"\s+#.*$", "", line.strip().removeprefix("$ ").replace("~/rlx/bin/rlx", "rlx"))
        line = re.sub(r"(\[[^|\]]*)\|[^\]]*\]", r"\1", line).replace("[", "").replace("]", "")
        found += [part for part in re.split(r" && | > ", line) if re.match(r"rlx [a-z-]|python -m rlx\.", part)]
    return list(dict.fromkeys(found))


def mentioned(page: Path) -> list[str]:
    """Return the commands of rlx that the sentences of a page name, perhaps without their arguments."""
    lines = re.sub(r"(?ms)^```.*?^```$|^ {4}.*?$", "", text(page)).split("\n\n")
    cells = [cell for part in lines for cell in (part.splitlines() if part.lstrip().startswith("|") else [part])]
    spans = [span for cell in cells for span in re.findall(r"`([^`]*)`", cell)]
    return list(dict.fromkeys(" ".join(span.split()) for span in spans if re.match(r"rlx [a-z]", span)))
