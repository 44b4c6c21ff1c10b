"""The command table and the one error handler."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from rlx import __version__
from rlx.cli.frame.commands import COMMANDS, expanded
from rlx.cli.frame.help_text import NO_BREAK, WIDEST, Command, CommandGroup, misuse
from rlx.cli.frame.output import be_quiet, print_json_error, wants_json
from rlx.cli.frame.streams import end, is_full, laid_out, mute, not_written, write_anything
from rlx.errors import ExitCode, RlxError
from rlx.plug_ins import warnings
from rlx.secret_text import mask

_MOST_BUGS = 1 << 20
_VARIABLE = re.compile(r"^((?:--set=)?(?:arms\.[^=]*\.)?(?:env|proxies)\b[^=]*=).*", re.DOTALL)
# A line of the help may break between two of them, not within one.
EXIT_CODES = " · ".join(
    each.replace(" ", NO_BREAK)
    for each in (
        *("0 ok", "1 error", "2 usage or invalid recipe", "3 bug in rlx", "4 host unreachable", "5 preflight failed"),
        *("10 run failed", "11 not finished", "12 no such run", "13 stopped", "14 not verified"),
        *("130 Ctrl-C", "141 output pipe closed"),
    )
)


def run() -> None:
    """Run the command line and exit; the only place where an exception becomes an exit code."""
    write_anything()
    code = _exit_code()
    for problem in warnings():
        _complain(f"rlx: warning: {problem}")
    end(code)


def command_line(arguments: Sequence[str] = ()) -> typer.Typer:
    """Build the command that is typed, or all of them if none is; building all takes a third of the start-up time."""
    app = typer.Typer(
        name="rlx",
        cls=CommandGroup,
        help="Launch RL experiments, and never show a number that the run's own evidence does not support.",
        epilog=f"Exit codes: {EXIT_CODES}",
        no_args_is_help=True,
        # Plain help: drawing panels takes longer than the rest of `rlx --help`.
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
    )
    app.callback()(_options)
    first = next((word for word in expanded(_typed(arguments)) if word not in ("-q", "--quiet")), "")
    if first not in COMMANDS and "_RLX_COMPLETE" in os.environ:
        for name in COMMANDS:
            app.command(name, help=_about(name))(_no_command)
        return app
    for name in (first,) if first in COMMANDS else COMMANDS:
        own = _module(name)
        command = getattr(import_module(f"rlx.cli.{own}"), own)
        if isinstance(command, typer.Typer):
            for leaf in command.registered_commands:
                if leaf.cls is not Command and leaf.callback:
                    leaf.cls, leaf.callback = Command, _with_quiet(leaf.callback)
            app.add_typer(command, cls=CommandGroup)
        else:
            app.command(name, cls=Command)(_with_quiet(command))
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"rlx {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Suppress progress messages.")] = False,
) -> None:
    if quiet:
        be_quiet()


_Quiet = Annotated[bool, typer.Option("--quiet", "-q", hidden=True)]


def _with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with a hidden `-q`, so that the option of `rlx` may also come last on the line."""

    @wraps(command)
    def with_option(*, quiet: bool, **values: Any) -> None:
        if quiet:
            be_quiet()
        command(**values)

    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Quiet)
    parameters = [*signature.parameters.values(), option]
    # Typer reads both: the signature for the order, the annotations for the types.
    with_option.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_option.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_option


def _module(command: str) -> str:
    # Python keeps the word `import` for itself.
    return "import_" if command == "import" else command


def _about(command: str) -> str:
    """Read what a command does from the first line of its module; importing all would keep a shell waiting."""
    file = Path(__file__).parent.parent / f"{_module(command)}.py"
    with file.open(encoding="utf-8") as lines:
        return lines.readline().strip('"\n').partition(": ")[2]


def _no_command() -> None:
    """Stand in for a command while its name is being completed."""


def _typed(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments; while a shell completes a word, only the command before it, since the shell waits."""
    if "_RLX_COMPLETE" not in os.environ:
        return arguments
    words = os.environ.get("COMP_WORDS", os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()[1:]
    return [word for typed in words if (word := expanded([typed])[0]) in COMMANDS][:1]


def _exit_code() -> int | str | None:
    try:
        words = sys.argv[1:]
        # Not standalone, it returns the code of a `typer.Exit`, and raises what it does not understand.
        return typer.main.get_command(command_line(words))(args=expanded(words), standalone_mode=False) or ExitCode.OK
    except SystemExit as ending:
        # typer and rich exit with 1 when `rlx logs | head` closes the pipe, which is no error.
        return ExitCode.OUTPUT_CLOSED if isinstance(ending.__context__, BrokenPipeError) else ending.code
    except typer.Abort:
        _complain("rlx: aborted")
        return ExitCode.ERROR
    except RlxError as error:
        return _fail(error.message, error.hint, error.exit_code)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return ExitCode.OUTPUT_CLOSED
    except OSError as error:
        if not is_full(error):
            return _report_bug(error)
        sys.stderr.write(not_written(error))
        mute()
        return ExitCode.ERROR
    except Exception as error:  # noqa: BLE001 - the one handler: a bug becomes a line and a file, not a traceback
        return _refuse(error) if hasattr(error, "format_message") else _report_bug(error)


def _refuse(error: Any) -> ExitCode:
    """Report a command line that Typer does not understand; a group without a command shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error.format_message()}\n")
        return ExitCode.USAGE
    return _fail(*misuse(error), ExitCode.USAGE)


def _fail(message: str, hint: str, code: ExitCode) -> ExitCode:
    _complain(f"rlx: {message}")
    if hint:
        _complain(f"  fix: {hint}")
    if wants_json(sys.argv[1:]):
        print_json_error(message, hint, code)
    return code


def _complain(text: str) -> None:
    from rlx.terminal_text import printable

    sys.stderr.write(f"{laid_out(printable(text), sys.stderr)}\n")


def _report_bug(error: Exception) -> ExitCode:
    import traceback

    from rlx.api.runs import rlx_home

    path = rlx_home() / "bug.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.exists() and path.stat().st_size > _MOST_BUGS:
            path.replace(path.with_name("bug.log.1"))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"rlx {__version__} {sys.version}\n{shown_arguments(sys.argv)}\n")
            log.write(mask("".join(traceback.format_exception(error))))
        kept = f"the details are in {path}"
    except OSError as problem:
        kept = f"the details could not be kept ({problem.strerror})"
    return _fail(f"this is a bug in rlx ({type(error).__name__}: {error}); {kept}", "", ExitCode.BUG)


def shown_arguments(arguments: Sequence[str]) -> str:
    """Return the command line without the values of variables, which may be secrets: `--set env.TOKEN=…`."""
    return mask(" ".join(_VARIABLE.sub(r"\1…", argument) for argument in arguments))
