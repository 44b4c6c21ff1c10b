"""Find other distributions that install files at the places of the package and the command `rlx`.

pip overwrites files of one with those of the other without a warning, and removing one removes files of the other. `rlx
--version` checks this, and so does a command that cannot be imported any more. So this module imports almost nothing.
Source of the format: the RECORD of installed distributions, PEP 376 and PEP 627.
"""

from __future__ import annotations

import os
import sys

# Not the name of the package and the command: on public indices, `rlx` is another project.
DISTRIBUTION = "rlx-evidence"
_SITES = ("site-packages", "dist-packages")
_OURS = (b"\nrlx/", b"\n../../../bin/rlx,", b"\n../../bin/rlx,")


def other_owners() -> list[str]:
    """List the other distributions as `name version`, in the order of their names."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib takes longer
    folders = dict.fromkeys([here, *(path for path in sys.path if path.rstrip("/").endswith(_SITES))])
    return sorted({_shown(name) for folder in folders for name in _distributions(folder) if _owns(folder, name)})


def warning_of(owners: list[str]) -> str:
    """Return the warning about other distributions, with its fix, in two lines."""
    names = " ".join(name.partition(" ")[0] for name in owners)
    return (
        f"rlx: warning: {', '.join(owners)} also brings a package or command rlx: files of one overwrite the other's\n"
        f"  fix: pip uninstall {names} {DISTRIBUTION}, then install rlx again from its checkout or wheel (RLX413)\n"
    )


def _distributions(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - pathlib takes longer
    except OSError:
        return []
    ours = DISTRIBUTION.replace("-", "_") + "-"
    return [name for name in names if name.endswith(".dist-info") and not name.lower().startswith(ours)]


def _owns(folder: str, name: str) -> bool:
    try:
        with open(f"{folder}/{name}/RECORD", "rb") as file:  # noqa: PTH123 - pathlib takes longer
            record = b"\n" + file.read()
    except OSError:
        return False
    return any(begin in record for begin in _OURS)


def _shown(name: str) -> str:
    words = name.removesuffix(".dist-info").replace("-", " ", 1)
    return "".join(letter if letter.isprintable() else "?" for letter in words)
