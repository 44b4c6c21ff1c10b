"""Entry point. `--version` answers before anything is imported: scripts ask it often."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        _main()
    except KeyboardInterrupt:
        # Ctrl-C while the modules are loaded; `run` knows the rest.
        sys.exit(130)


def _main() -> None:
    from rlx.cli.frame.streams import end, open_missing_streams

    open_missing_streams()
    if sys.argv[1:] == ["--version"]:
        from rlx import __version__

        end(0, f"rlx {__version__}\n")
    _collect_less_garbage()
    from rlx.cli.frame.app import run

    run()


def _collect_less_garbage() -> None:
    """Collect garbage rarely, because imports leave none, and looking for it takes a tenth of a short command's time.

    At the end of the process nobody has to look at all.
    """
    import atexit
    import gc

    gc.set_threshold(50_000)
    atexit.register(gc.freeze)


if __name__ == "__main__":
    main()
