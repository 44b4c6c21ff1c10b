"""Entry point. `--version` answers before anything is imported: scripts ask it often."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        from rlx import __version__

        print(f"rlx {__version__}")
        return
    from rlx.cli.app import run

    run()


if __name__ == "__main__":
    main()
