"""Entry point. `--version` answers before anything is imported: scripts ask it often."""

from __future__ import annotations

import sys


def main() -> None:
    from rlx.cli.streams import end, open_missing_streams

    open_missing_streams()
    if sys.argv[1:] == ["--version"]:
        from rlx import __version__

        end(0, f"rlx {__version__}\n")
    from rlx.cli.app import run

    run()


if __name__ == "__main__":
    main()
