"""Find the launch in a script, a line, a configuration or a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rlx.api.imported_recipe import keys_part
from rlx.backends.registry import parts
from rlx.backends.shared.other_trainers import command_of, other_trainer, trainer_of_configuration
from rlx.backends.shared.users_launches import TRAINS_NOTHING
from rlx.errors import UsageError
from rlx.model import Finding, Severity
from rlx.recipe.problems import UNDECIDED
from rlx.secret_text import MASK, is_secret, mask, names_secret, secrets_in

if TYPE_CHECKING:
    from rlx.api.launch_files import LaunchFile
    from rlx.backends.shared.users_launches import KeysPart
    from rlx.shell_reader import ShellScript, Word
    from rlx.shell_reader.wrappers import Inner
    from rlx.yaml_reader.reader import YamlError

_MOST_BYTES = 4 << 20
_CONFIGURATIONS = (".yaml", ".yml")
_LOGS = (".log", ".out", ".txt")
_LINE = re.compile(
    r"\s*(?:[A-Za-z_]\w*=\S*\s+)*(?:ray\s+job\s+submit|(?:\S*[/}])?python[\d.]*|nohup|torchrun|bash\s+-c|srun"
    r"|(?:uv|poetry|pixi|conda|mamba|micromamba|pdm|pipenv)\s+run|accelerate\s+launch"
    r"|(?:docker|podman|singularity|apptainer)\s+(?:exec|run)|nsys\s+profile|msprof)\s"
)
_FORMS = "a bash script, a line that starts a training, its configuration as YAML, or a log that shows it"
_PYTHON = (".py", ".ipynb")
_KNOWN = re.compile(r"\.(?:sh|bash|slurm|sbatch|ya?ml|log|out|txt|conf|cfg|py|ipynb)", re.IGNORECASE)
_WITH_A_WORD = ("-X", "-W", "--listen", "--connect", "--log-to")
# Programs of Python that start another one, whose words follow theirs.
_DRIVERS = re.compile(r"(?:.*/)?rlx_ray_driver\.py|debugpy")
_NAME, _FOLDER, _SEARCHED = "name", "folder", "searched"
# Hydra's own options: --config-path is the folder of the configuration, --config-dir a further one.
_HYDRA_OPTIONS = {
    **dict.fromkeys(("--config-name", "-cn"), _NAME),
    **dict.fromkeys(("--config-path", "-cp"), _FOLDER),
    **dict.fromkeys(("--config-dir", "-cd"), _SEARCHED),
}
_NPU = re.compile(r"\b(?:npu|ascend|hccl|cann)", re.IGNORECASE)
_GPU = re.compile(r"\bgpu\b(?!s)")
SEARCH_PATH = "hydra.searchpath"
_LEAST = 8
_MULTIRUN = ("-m", "--multirun")
_CHOICE = re.compile(r"choice\((.*)\)")
_CHOSEN_BY_HYDRA = re.compile(r"=\s*(?:range|glob|interval|shuffle|sort|tag)\(")
_MOST_LAUNCHES = 64
"""As many as a recipe may have arms."""
_KEY = re.compile(r"(?:\+{1,2}|~)?[A-Za-z_][\w.@/-]*")
_MOST_PARENTS = 5
# What only the shell knows, in a path.
_OPEN = re.compile(r"\$\{[^}]*\}|\$\([^)]*\)|\$\w+|`[^`]*`")


def is_launch(source: str) -> bool:
    """Tell whether the word names a launch and not a bundled recipe."""
    return _is_line(source) or "/" in source or source == "-" or _KNOWN.fullmatch(Path(source).suffix) is not None


def launch_of(source: str) -> FoundLaunch:
    """Return the launch that is named by a path, `-` for standard input, or in full. Raises UsageError without one."""
    from rlx.evidence.run_configuration import printed_config, read_printed_config

    if Path(source).suffix in _LOGS and _program_of(printed := read_printed_config(Path(source))):
        return _of_printed(printed)
    text, name = (source, "the line") if _is_line(source) else (_read(source), source)
    if not text.strip():
        raise UsageError(f"--from {name}: is empty", f"name {_FORMS}")
    if Path(name).suffix in _PYTHON:
        raise UsageError(f"--from {name}: is a program, and what it is started with is in no file", f"name {_FORMS}")
    if Path(name).suffix in _CONFIGURATIONS:
        return _of_configuration(text, Path(name))
    if _program_of(printed := printed_config(text)):
        return _of_printed(printed)
    found = find_launch(text, name)
    folder = Path() if _is_line(source) else Path(source).parent
    others = tuple(_with_configuration(each, folder) for each in found.others)
    return replace(_with_configuration(found, folder), others=others)


def _is_line(source: str) -> bool:
    return "\n" in source or _LINE.match(source) is not None


def _read(source: str) -> str:
    """Read the text. Raises UsageError for anything but text of up to a few MiB."""
    from rlx.local_files import read_stdin, read_text

    try:
        return read_stdin(_MOST_BYTES).decode() if source == "-" else read_text(Path(source), _MOST_BYTES)
    except UnicodeDecodeError:
        raise UsageError(f"--from {source}: not UTF-8 text", f"name {_FORMS}") from None
    except OSError as problem:
        raise UsageError(f"--from {source}: {problem.strerror}", f"name {_FORMS}") from None
    except ValueError:
        raise UsageError("--from: no file can have this name", f"name {_FORMS}") from None


def _of_configuration(text: str, file: Path) -> FoundLaunch:
    """Read a configuration, or the file of a launcher. Raises UsageError for any other YAML, which it names."""
    from rlx.api.launch_files import launch_file
    from rlx.yaml_reader.reader import YamlError

    try:
        found = launch_file(text)
    except YamlError as problem:
        raise _unreadable(problem, str(file)) from None
    if found is not None:
        return _of_launcher(found, file)
    tree = _tree(text, str(file))
    if program := _program_of(tree):
        return _safe(FoundLaunch(program, tuple(keys_part(program).keys_in(file, tree).items())))
    if "backend" in tree or "extends" in tree:
        raise UsageError(f"--from {file}: is a recipe already", f"rlx validate {file}")
    if owner := trainer_of_configuration(tree):
        raise UsageError(
            f"--from {file}: is a configuration of {owner}, and names no program",
            f"launch it as it is: a script with {command_of(owner, file.name)}, by rlx launch --script",
        )
    raise UsageError(f"--from {file}: is no configuration that rlx knows", f"name {_FORMS}")


def _of_launcher(found: LaunchFile, file: Path) -> FoundLaunch:
    if not found.script:
        raise UsageError(
            f"--from {file}: {found.launcher} without a command: {found.place} is not set",
            "name the file that starts the training",
        )
    launch = find_launch(found.script, str(file))
    message = f"read from {found.place} of {found.launcher}, for the first node"
    if found.left_out:
        message += f"; left out of the recipe: {', '.join(found.left_out)}"
    note = Finding("RLX007", Severity.NOTE, message, "", str(file))
    others = tuple(_with_configuration(each, file.parent) for each in launch.others)
    return replace(_with_configuration(replace(launch, findings=(note, *launch.findings)), file.parent), others=others)


def _program_of(tree: Mapping[str, Any]) -> str:
    known = (cast("KeysPart", module).program_of(tree) for _, module in parts("users_keys"))
    return next(filter(None, known), "")


def _with_configuration(found: FoundLaunch, folder: Path) -> FoundLaunch:
    """Read the user's configuration, where the launch starts from one, below what the launch sets itself.

    Raises UsageError where it is not here: without it the recipe would have other values.
    """
    part, folder = keys_part(found.program), folder.absolute()
    name = part.file_of(found.program, found.config_name, found.config_folder)
    if not name:
        return found
    place = next(filter(_is_file, _places(found, name, folder)), None)
    if place is None:
        written = "/".join(filter(None, (found.config_folder or found.searched, name)))
        raise UsageError(
            f"--from: the launch starts from {written}, which is not here",
            f"put {name} beside the script, or name it: rlx init --from {name}",
        )
    pairs = tuple(part.keys_in(place, _tree(_read(str(place)), str(place))).items())
    own = (pair for pair in found.pairs if pair[0] != SEARCH_PATH)
    shown = place.relative_to(folder) if place.is_relative_to(folder) else place
    note = Finding("RLX007", Severity.NOTE, f"the launch starts from {name}: its keys are those of {shown}", "", name)
    return _safe(replace(found, pairs=(*pairs, *own), config_name="", findings=(note, *found.findings)))


def _places(found: FoundLaunch, name: str, folder: Path) -> Iterator[Path]:
    """Yield where the file may be: in the folder that the launch names, or the program's, in the script's checkout.

    Of a folder on another machine, or below one that only the shell knows, its last parts are looked for.
    """
    parents = [folder, *folder.parents][:_MOST_PARENTS]
    written = (found.config_folder or found.searched).removeprefix("file://")
    if written.startswith("/"):
        yield Path(written) / name
    known = Path(_OPEN.split(written)[-1].lstrip("/")).parts
    program = Path(found.program.removesuffix(".py").replace(".", "/")).parent
    for parent in parents:
        if written and not written.startswith("/"):
            yield parent / program / written / name
        for first in range(len(known)):
            yield parent.joinpath(*known[first:], name)
    if not written:
        yield from (parent / program / "config" / name for parent in parents)
        yield folder / "config" / name
        yield from (parent / "configs" / name for parent in parents)
    yield folder / name


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than a file can have
        return False


def _safe(found: FoundLaunch) -> FoundLaunch:
    """Move secrets out of the values of a configuration."""
    secrets, names = Secrets(found.pairs), list(found.secrets)
    pairs = tuple((key, secrets.moved_out(key, value, names)) for key, value in found.pairs)
    return replace(found, pairs=pairs, secrets=tuple(names))


def _tree(text: str, name: str) -> Mapping[str, Any]:
    from rlx.yaml_reader.hydra import read_hydra
    from rlx.yaml_reader.reader import YamlError

    try:
        tree = read_hydra(text)
    except YamlError as problem:
        raise _unreadable(problem, name) from None
    if not isinstance(tree, dict):
        raise UsageError(f"--from {name}: is no configuration that rlx knows", f"name {_FORMS}")
    return tree


def _unreadable(problem: YamlError, name: str) -> UsageError:
    first = problem.problems[0]
    return UsageError(f"--from {name}, line {first.line}: {first.text}", "correct the file")


def _of_printed(tree: Mapping[str, Any]) -> FoundLaunch:
    """Read a printed configuration. It has every key, so those with the back-end's default are left out."""
    from rlx.yaml_reader.hydra import leaves

    program = _program_of(tree)
    return _safe(FoundLaunch(program, tuple(keys_part(program).beyond_defaults(dict(leaves(tree))).items())))


@dataclass(frozen=True, slots=True)
class FoundLaunch:
    """What a script launches. `pairs` are its keys in order, those in `unknown` as they are written. `others` are what
    a loop or Hydra's multirun launches after it. `device` is UNDECIDED for a script that is for several kinds.

    `environment` is what is known of it, `open_variables` what is not, as it is written. `secrets` are names of
    variables whose values were in the script.
    """

    program: str
    pairs: tuple[tuple[str, object], ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    open_variables: Mapping[str, str] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = ()
    config_name: str = ""
    config_folder: str = ""
    searched: str = ""
    workdir: str = ""
    device: str = ""
    findings: tuple[Finding, ...] = ()
    others: tuple[FoundLaunch, ...] = ()


def find_launch(text: str, name: str) -> FoundLaunch:
    """Return the launch of a script called `name`, with its further ones in `others`. Raises UsageError for a script
    without one, and one that cannot be read.
    """
    from rlx.api.launch_files import with_slurm
    from rlx.shell_reader import read_script

    script = read_script(with_slurm(text), name)
    secrets = Secrets(_named_texts(script))
    starts = list(_starts(script, name))
    chosen = _chosen(starts, name, secrets)
    again = [start for start in starts if _is_again(start, chosen)]
    launches = [each for start in (chosen, *again) for each in _launches(start, name, secrets)]
    if len(launches) > _MOST_LAUNCHES:
        raise UsageError(
            f"{name}, line {chosen.command.line}: starts {len(launches)} trainings; a recipe has at most "
            f"{_MOST_LAUNCHES} arms",
            "name a script, or a line, that starts fewer",
        )
    others = [start for start in starts if start is not chosen and start not in again]
    found = (*launches[0].findings, *_findings(script, chosen, others, text, name, secrets))
    device = "" if not _NPU.search(text) else UNDECIDED if _GPU.search(text) else "npu"
    first, *rest = (replace(each, device=device) for each in launches)
    return replace(first, findings=found, others=tuple(rest))


def _is_again(start: Inner, chosen: Inner) -> bool:
    """Tell whether a loop comes to the chosen launch once more, with other words."""
    one, other = start.command, chosen.command
    return (
        start is not chosen
        and one.line == other.line
        and one.is_certain
        and other.is_certain
        and _program(start) == _program(chosen)
    )


def _program(start: Inner) -> str:
    return _inner_words(start.command.words)[0].text()


def _launches(start: Inner, name: str, secrets: Secrets) -> Iterator[FoundLaunch]:
    """Yield the launch of a start; of Hydra's multirun, one for each combination of values."""
    words = _inner_words(start.command.words)
    for arguments in _combinations(words[1:], start, name):
        read = _LaunchWords(secrets)
        read.arguments(arguments)
        searched = read.hydra.get(_SEARCHED, "")
        if searched:
            read.pairs.append((SEARCH_PATH, [searched if "://" in searched else f"file://{searched}"]))
        environment, opened = read.environment(start.command.environment)
        yield FoundLaunch(
            program=words[0].text(),
            pairs=tuple(read.pairs),
            environment=environment,
            open_variables=opened,
            unknown=frozenset(read.unknown),
            secrets=tuple(read.secrets),
            config_name=read.hydra.get(_NAME, ""),
            config_folder=read.hydra.get(_FOLDER, ""),
            searched=searched,
            workdir=start.command.workdir,
            findings=tuple(_left(word, start.command.line, name) for word in read.left),
        )


def _combinations(words: tuple[Word, ...], start: Inner, name: str) -> Iterator[tuple[Word, ...]]:
    """Yield the words of each launch. Raises UsageError for values that only Hydra would choose, and for too many."""
    from itertools import islice, product

    if not any(word.text() in _MULTIRUN for word in words):
        yield words
        return
    words = tuple(word for word in words if word.text() not in _MULTIRUN)
    for word in words:
        if _CHOSEN_BY_HYDRA.search(word.text()):
            raise UsageError(
                f"{name}, line {start.command.line}: {word.text()}: Hydra chooses these values when it starts",
                "write them as KEY=A,B,C",
            )
    ways = product(*(list(_values_of(word)) for word in words))
    # One more than there may be, so that too many are noticed.
    yield from islice(ways, _MOST_LAUNCHES + 1)


def _values_of(word: Word) -> Iterator[Word]:
    """Yield the word once for each value between its commas, as Hydra's multirun parts them."""
    from rlx.shell_reader import Word

    key, equals, value = word.text().partition("=")
    values = _parted(_CHOICE.sub(r"\1", value)) if equals and word.is_known and not word.variables else []
    if len(values) < 2 or key.startswith("hydra."):
        yield word
    else:
        yield from (Word((f"{key}={each}",)) for each in values)


def _parted(text: str) -> list[str]:
    """Part a text at its commas that are in no brackets and no quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            depth += (character in "([{") - (character in ")]}")
            if character == "," and depth == 0:
                parts.append("")
                continue
        parts[-1] += character
    return [part.strip() for part in parts]


def _named_texts(script: ShellScript) -> Iterator[tuple[str, str]]:
    """Yield each text of the script that has a name: a variable's, an option's, a key's."""
    for key, word in script.variables.items():
        yield key, word.text()
    for command in script.commands:
        for key, word in command.environment.items():
            yield key, word.text()
        before = ""
        for text in (word.text() for word in command.words):
            key, equals, value = text.partition("=")
            yield (key, value) if equals else (before, text)
            before = text if text.startswith("--") else ""


def _starts(script: ShellScript, name: str) -> Iterator[Inner]:
    """Each start of a Python program, in order."""
    from rlx.shell_reader.wrappers import programs

    for inner in programs(script, name):
        if _inner_words(inner.command.words):
            yield inner


def _inner_words(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the module or file that Python is to run, and its arguments; () for other commands."""
    from rlx.shell_reader.wrappers import PYTHON

    texts = [word.text() for word in words]
    if texts and other_trainer(texts):
        return words
    # Before -m a program that only the shell knows, such as $PYTHON, is one.
    is_open = bool(words) and not any(isinstance(part, str) for part in words[0].parts) and texts[1:2] == ["-m"]
    if not is_open and not (texts and PYTHON.fullmatch(texts[0])):
        return ()
    at = _program_at(texts, 1)
    while at < len(texts) and _DRIVERS.fullmatch(texts[at]):
        at = _program_at(texts, at + 1)
    return words[at:] if at < len(texts) and not texts[at].startswith("-") else ()


def _program_at(texts: list[str], at: int) -> int:
    while at < len(texts) and texts[at].startswith("-"):
        if texts[at] == "-m":
            return at + 1
        if texts[at] == "-c":
            return len(texts)
        at += 2 if texts[at] in _WITH_A_WORD else 1
    return at


def _chosen(starts: list[Inner], name: str, secrets: Secrets) -> Inner:
    """Return the first start of a program that rlx has a recipe for. Raises the refusal of the first program
    otherwise.
    """
    from rlx.api.imported_recipe import examples, keys_part

    refusals = []
    for start in starts:
        words = [word.text() for word in _inner_words(start.command.words)]
        try:
            keys_part(words[0])
        except UsageError as problem:
            refusals.append((start, _refusal(words, problem)))
        else:
            return start
    if not refusals:
        raise UsageError(
            f"{name}: starts no training that rlx knows",
            f"name the script that has the line {examples()}, also behind `uv run`, `srun` or `ray job submit … --`",
        )
    # A script also prepares data and serves models: what it trains is what it is about.
    first, refusal = next((each for each in refusals if _names_training(each[1])), refusals[0])
    raise UsageError(f"{name}, line {first.command.line}: {secrets.masked(refusal.message)}", refusal.hint)


def _refusal(words: list[str], problem: UsageError) -> UsageError:
    """Say whose trainer it is, where it is one that rlx has no recipes for."""
    from rlx.yaml_reader.hydra import read_words

    as_it_is = "launch it as it is: rlx launch --script"
    if owner := other_trainer(words):
        return UsageError(f"{words[0]}: is {owner}'s, which rlx has no recipes for", as_it_is)
    if "is no program" in problem.message:
        sections = {key.lstrip("+~").partition(".")[0]: None for key, _ in read_words(words[1:])}
        if owner := _program_of(sections):
            owner = owner.partition(".")[0]
            return UsageError(f"{words[0]}: is a trainer of its own on {owner}, whose steps rlx cannot count", as_it_is)
    return problem


def _names_training(refusal: UsageError) -> bool:
    return "is no program" not in refusal.message and TRAINS_NOTHING not in refusal.message


class _LaunchWords:
    """Split the words of a launch, and move secrets out of them."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self.pairs: list[tuple[str, object]] = []
        self.unknown: list[str] = []
        self.secrets: list[str] = []
        self.left: list[str] = []
        self.hydra: dict[str, str] = {}

    def arguments(self, words: tuple[Word, ...]) -> None:
        """Read all words: what is set, and the names of the configuration and of its folders."""
        option = ""
        rest = list(words)
        while rest:
            word, before = rest.pop(0), option
            option, equals, value = word.text().partition("=")
            if before.startswith("--") and not equals and is_secret(before, word.text()):
                self.left.append(MASK)
            elif (kind := _HYDRA_OPTIONS.get(option)) is None:
                self._word(word)
            else:
                self.hydra[kind] = value if equals else rest.pop(0).text() if rest else ""

    def _word(self, word: Word) -> None:
        from rlx.shell_reader import Variable
        from rlx.yaml_reader.hydra import read_word

        pair = read_word(word.text(lambda name: f"${{oc.env:{name}}}"))
        if pair is None or not _has_its_key(word):
            # A variable that is not set expands to nothing, as in a shell.
            if any(not isinstance(part, Variable) for part in word.parts):
                self.left.append(self._secrets.masked(word.text()))
            return
        key, value = pair
        if not word.is_known:
            self.unknown.append(key)
            value = self._secrets.masked_value(value)
        else:
            value = self._secrets.moved_out(key, value, self.secrets)
        self.pairs.append((key, self._secrets.masked_value(value)))

    def environment(self, variables: Mapping[str, Word]) -> tuple[dict[str, str], dict[str, str]]:
        """Split the environment into known and unknown values. A value that contains a secret counts as one."""
        known: dict[str, str] = {}
        opened: dict[str, str] = {}
        for name, word in variables.items():
            text = word.text()
            if names_secret(name) or self._secrets.is_in(name, text):
                self.secrets.append(name)
            elif word.is_known and not word.variables:
                known[name] = text
            else:
                opened[name] = self._secrets.masked(text)
        return known, opened


def _has_its_key(word: Word) -> bool:
    """Tell whether a word sets one key, whatever of its value only the shell will know."""
    key, _, value = word.text().partition("=")
    return word.is_known or (_KEY.fullmatch(key) is not None and "=" not in value.partition(" or ")[0])


def _left(word: str, line: int, name: str) -> Finding:
    message = f"line {line}: left out, since it sets no key: {word}"
    return Finding("RLX007", Severity.WARNING, message, "write the keys that it stands for into overrides", name)


def _findings(
    script: ShellScript, chosen: Inner, others: list[Inner], text: str, name: str, secrets: Secrets
) -> Iterator[Finding]:
    """Report what else the script does, and what was assumed."""
    from rlx.planning.script_lines import findings_of

    for word in script.sourced:
        file = secrets.masked(word.text())
        message = f"the script sources {file}, which is not read here"
        fix = "write it into the host's entry: setup: [FILE] (rlx hosts); CANN's own are sourced without"
        yield Finding("RLX005", Severity.NOTE, message, fix, name)
    if chosen.wrappers:
        message = (
            f"line {chosen.command.line}: {', '.join(chosen.wrappers)} before the training is left out of the recipe"
        )
        yield Finding("RLX007", Severity.NOTE, secrets.masked(message), "", name)
    for unread in chosen.unread:
        message = f"{secrets.masked(unread)} is not read here"
        yield Finding("RLX005", Severity.WARNING, message, "write its variables into the recipe's env", name)
    if not chosen.command.is_certain:
        message = f"line {chosen.command.line}: whether the script comes to this launch is known only when it runs"
        yield Finding("RLX007", Severity.NOTE, message, "", name)
    for variable, line in script.required.items():
        message = f"line {line}: the script ends without {variable}, which it does not set; read as with a value"
        yield Finding("RLX007", Severity.NOTE, message, f"export {variable} where the script runs", name)
    programs = {_program(start) for start in others}
    lines = sorted({start.command.line for start in others})
    if programs:
        message = f"line {chosen.command.line} is the launch that was read; the script starts more of Python: "
        shown = secrets.masked(", ".join(sorted(programs)[:5]))
        message += f"{shown} (line {', '.join(map(str, lines[:5]))})"
        yield Finding("RLX007", Severity.NOTE, message, "what prepares data or weights is to be done before", name)
    for skipped in script.skipped:
        message = f"line {skipped.line}: {secrets.masked(skipped.text)}"
        yield Finding("RLX007", Severity.WARNING, message, "bash -n tells what is wrong there", name)
    for found in findings_of(text, name):
        message = f"left out of the recipe: {secrets.masked(found.message.removeprefix('the script '))}"
        yield Finding("RLX007", Severity.NOTE, message, "", name)


class Secrets:
    """The secrets of one launch: what `rlx.secret_text` finds, and wherever else one of its values stands."""

    def __init__(self, named: Iterable[tuple[str, object]]) -> None:
        """`named`: the values of its variables and keys."""
        values = {value for name, text in _texts(named) for value in _values(name, text) if _is_telling(value)}
        self._values = sorted(values, key=len, reverse=True)

    def masked(self, text: str) -> str:
        """Return the text with *** for each."""
        for value in self._values:
            text = text.replace(value, MASK)
        return mask(text)

    def is_in(self, name: str, text: str) -> bool:
        """Tell whether a value of this name is a secret, or has one in it."""
        return is_secret(name, text) or any(value in text for value in self._values)

    def moved_out(self, key: str, value: object, names: list[str]) -> object:
        """Return the value of a key, with a variable in place of each secret in it, whose name is added to `names`."""
        if isinstance(value, Mapping):
            return {inner: self.moved_out(f"{key}.{inner}", each, names) for inner, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.moved_out(key, each, names) for each in value]
        if not isinstance(value, str) or not self.is_in(key, value):
            return value
        names.append(re.sub(r"\W", "_", key.lstrip("+~").rpartition(".")[2]).upper())
        return f"${{oc.env:{names[-1]}}}"

    def masked_value(self, value: object) -> object:
        """Return the same for the texts in a value."""
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, Mapping):
            return {key: self.masked_value(inner) for key, inner in value.items()}
        return [self.masked_value(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _texts(named: Iterable[tuple[str, object]]) -> Iterator[tuple[str, str]]:
    """Yield the texts in the values, each with its name."""
    for name, value in named:
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, Mapping):
            yield from _texts(value.items())
        elif isinstance(value, (list, tuple)):
            yield from _texts((name, each) for each in value)


def _values(name: str, text: str) -> list[str]:
    return secrets_in(text) or ([text] if is_secret(name, text) else [])


def _is_telling(value: str) -> bool:
    """Tell whether to search for the value elsewhere: not for short words and paths."""
    return len(value) >= _LEAST and not value.startswith(("/", "~", "$")) and not re.search(r"\s", value)
