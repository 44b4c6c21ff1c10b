"""Start the command line. `--version` is answered before anything is imported, since scripts ask for it often."""

from __future__ import annotations

import atexit
import gc
import sys


def main() -> None:
    """Run the command line that the process was given, and end the process with its exit code."""
    try:
        from rlx.cli.frame.streams import end, open_missing_streams

        open_missing_streams()
        if sys.argv[1:] == ["--version"]:
            from rlx import __version__

            _warn_of_other_owners()
            end(0, f"rlx {__version__}\n")
        # Collect garbage rarely, and not at the end: imports leave none, and it costs a tenth of a short command.
        gc.set_threshold(50_000)
        atexit.register(gc.freeze)
        from rlx.cli.frame.app import run

        run()
    except KeyboardInterrupt:
        # Ctrl-C while the modules are loaded; later ones are handled by `run`.
        sys.exit(130)
    except ImportError:
        if not (_warn_of_other_owners() or _tell_replaced_files()):
            raise
        sys.exit(1)


def _warn_of_other_owners() -> bool:
    """Warn of other distributions whose files may have replaced rlx's own; return whether there are any."""
    from rlx.other_owners import other_owners, warning_of

    owners = other_owners()
    if owners:
        sys.stderr.write(warning_of(owners))
    return bool(owners)


def _tell_replaced_files() -> bool:
    """Name the files of rlx that differ from those that were installed; return whether there are any."""
    from rlx.installed import replaced_files

    if not (replaced := replaced_files()):
        return False
    words = f"files of rlx are gone, or not those that were installed: {', '.join(replaced[:5])}"
    sys.stderr.write(f"rlx: {words}\n  fix: install rlx again from its checkout or wheel (RLX413)\n")
    return True


if __name__ == "__main__":
    main()
