"""Entry point. `--version` answers before anything is imported: scripts ask it often."""

from __future__ import annotations

import gc
import sys

# What imports leave behind is no garbage, and looking for some in it takes a tenth of a short command's time.
_ALLOCATIONS = 50_000


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        from rlx import __version__

        print(f"rlx {__version__}")
        return
    gc.set_threshold(_ALLOCATIONS)
    from rlx.cli.app import run

    run()


if __name__ == "__main__":
    main()
