"""Go through a script as bash would, and note the commands that it would start instead of starting them.

Builtins are done as bash does them: functions, `cd`, `set`, `source`, `eval` and others of the kind.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum
from functools import partial

from rlx.shell_reader.conditions import Conditions
from rlx.shell_reader.expansion import Expander
from rlx.shell_reader.shell_state import Ended, Left, State, Value
from rlx.shell_reader.shell_syntax import Node, line_of, named, parse_mended, text_of
from rlx.shell_reader.shell_words import ShellCommand, ShellScript, is_known, without_marks

_SEQUENCES = ("program", "compound_statement", "do_group", "else_clause", "ERROR", "case_item")

# The steps that take as long as to parse a text.
_A_TEXT = 10
_HERE = ("heredoc_redirect", "herestring_redirect")
_NO_WORDS = ("variable_assignment", "file_redirect", *_HERE)
# What starts a script that is named behind it.
_STARTERS = ("bash", "sh", "zsh", "dash", "sbatch", "srun", "nohup", "time", "bsub", "qsub", "sudo", "env", "exec")
_LOOK_AHEAD = 6
_GLUE = {b"": "", b"\\ ": " "}
_NOTHING = ("trap", "ulimit", "shopt", "alias", "hash", "wait", "umask", "jobs", "disown", "popd", "type", "kill")


def read_script(text: str, name: str, steps: int = 0) -> ShellScript:
    """Read a script called `name`. Raises UsageError for one that is too large, has no end, or calls itself.

    `steps` were done already for the script that it is a part of.
    """
    state = State(name, steps=steps)
    evaluator = Evaluator(state)
    with suppress(Ended, Left):
        evaluator.text(text)
    variables = {key: state.marks.word(value) for key, value in state.variables.items() if isinstance(value, str)}
    skipped, required = tuple(state.skipped), dict(state.required)
    found = tuple(state.commands), tuple(state.sourced), variables, skipped, state.steps, required
    return ShellScript(*found, tuple(state.read_unset))


class Status(Enum):
    """How a command ends, as far as it is known.

    RAN is a program's, of which a script expects that it does its work; MAYBE is a test's."""

    YES = "yes"
    NO = "no"
    MAYBE = "maybe"
    RAN = "ran"


YES, NO, MAYBE, RAN = Status


def _status(value: bool | None) -> Status:
    return MAYBE if value is None else YES if value else NO


def _opposite(status: Status) -> Status:
    return {YES: NO, NO: YES}.get(status, MAYBE)


class Evaluator:
    """An evaluator that goes through the nodes of a script with one state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.expander = Expander(state)
        self.conditions = Conditions(state, self.expander)
        self._builtins = _Builtins(state, self)
        self._kinds: dict[str, Callable[[Node], Status]] = {
            **dict.fromkeys(_SEQUENCES, self._sequence),
            "list": self._list,
            "pipeline": self._pipeline,
            "redirected_statement": self._redirected,
            "subshell": self._subshell,
            "negated_command": lambda node: _opposite(self._sequence(node)),
            "test_command": lambda node: _status(self.conditions.of_node(node)),
            "if_statement": self._if,
            "for_statement": self._for,
            "c_style_for_statement": self._c_for,
            "while_statement": self._while,
            "case_statement": self._case,
            "function_definition": self._define,
            "variable_assignment": self._assignment,
            "variable_assignments": self._sequence,
            "declaration_command": self._declaration,
            "unset_command": self._unset,
            "command": self._command,
        }

    def text(self, text: str) -> Status:
        """Go through a text: the script, or what it hands to `eval`."""
        self._state.step(_A_TEXT)
        root = parse_mended(without_marks(text), self._state.name)
        if root.has_error:
            self._state.skip(_first_error(root), "cannot be read as bash, and what it means is a guess")
        return self.run(root)

    def run(self, node: Node) -> Status:
        self._state.step()
        kind = self._kinds.get(node.type)
        if kind is None:
            return RAN
        with self._state.deeper():
            return kind(node)

    def all(self, nodes: Iterable[Node]) -> Status:
        status: Status = YES
        for node in nodes:
            status = self.run(node)
        return status

    def _sequence(self, node: Node) -> Status:
        if node.type == "compound_statement" and node.children and node.children[0].type == "((":
            return self._arithmetic(text_of(node)[2:-2])
        return self.all(named(node))

    def _arithmetic(self, text: str) -> Status:
        name, equals, value = text.partition("=")
        if equals and name.strip().isidentifier() and not value.startswith("="):
            number = self.expander.arithmetic(value)
            self.assign(name.strip(), self._state.unknown(text) if number is None else str(number))
            return RAN
        for ending, by in (("++", 1), ("--", -1)):
            if text.strip().removesuffix(ending).isidentifier() and text.strip().endswith(ending):
                return self._arithmetic(f"{text.strip()[:-2]}={text.strip()[:-2]}+{by}")
        number = self.expander.arithmetic(text)
        return MAYBE if number is None else YES if number else NO

    def _list(self, node: Node) -> Status:
        left, operator, right = (*node.children, None, None)[:3]
        status, assumed = self._decided(lambda: self.run(left))
        if operator is None or right is None:
            return status
        is_or = operator.type == "||"
        if status == MAYBE:
            self._state.branch(lambda: self.run(right), lambda: None)
            return MAYBE
        if is_or and status == RAN:
            self._state.aside(lambda: self.run(right))
            return status
        if (status == NO) != is_or:
            return status
        behind: list[Status] = []
        if self._is_guard(lambda: behind.append(self.run(right)), assumed, left):
            return MAYBE
        return behind[-1]

    def _decided(self, decide: Callable[[], Status]) -> tuple[Status, set[str]]:
        """Decide a condition. Returns also the variables from outside that it takes for unset.

        In a `while` the arguments of the script are none: such loops go through them.
        """
        state = self._state
        kept = state.assumed, state.presumes_no_arguments
        state.assumed, state.presumes_no_arguments = set(), state.presumes_no_arguments or state.loops > 0
        try:
            return decide(), state.assumed
        finally:
            state.assumed, state.presumes_no_arguments = kept[0] | state.assumed, kept[1]

    def _is_guard(self, way: Callable[[], object], assumed: set[str], condition: Node) -> bool:
        """Go a way. Tell whether the script would end there only because of variables that it expects to be set."""
        if not assumed:
            way()
            return False
        if self._state.goes_on(way):
            return False
        for name in sorted(assumed):
            self._state.require(name, line_of(condition))
        return True

    def _pipeline(self, node: Node) -> Status:
        return self.all(named(node))

    def _redirected(self, node: Node) -> Status:
        """Run a command with its here-document, and remember a file that `cat` or `tee` makes of one."""
        state, body = self._state, node.child_by_field_name("body")
        here = next((child for child in node.children if child.type in _HERE), None)
        kept, state.document = state.document, None if here is None else self._document(here)
        try:
            if here is not None and body is not None and body.type == "command":
                words = [word for child in named(body) for word in self.expander.fields(child)]
                files = [
                    self.expander.joined(one)
                    for each in (node, here)
                    for redirect in each.children
                    if redirect.type == "file_redirect"
                    for one in redirect.children_by_field_name("destination")
                ]
                for file in (*files, *words[1:]) if words[:1] in (["cat"], ["tee"]) else ():
                    state.files[posixpath.normpath(file)] = state.document or ""
            return self.run(body) if body is not None else RAN
        finally:
            state.document = kept

    def _document(self, here: Node) -> str:
        """Return the text of a here-document, or of the word behind `<<<`."""
        if here.type == "herestring_redirect":
            return "".join(self.expander.joined(child) for child in named(here))
        parts = {child.type: child for child in here.children}
        start, body = parts.get("heredoc_start"), parts.get("heredoc_body")
        if body is None:
            return ""
        is_plain = start is not None and text_of(start)[:1] in ("'", '"', "\\")
        return text_of(body) if is_plain else self.expander.document(body)

    def _subshell(self, node: Node) -> Status:
        """Run a subshell: what it changes is gone when it ends."""
        state = self._state
        before, exported, workdir = dict(state.variables), set(state.exported), state.workdir
        try:
            return self.all(named(node))
        except Ended:
            return RAN
        finally:
            state.variables, state.exported, state.workdir = before, exported, workdir

    def _if(self, node: Node) -> Status:
        return self._choice(list(node.children), "then")

    def _choice(self, children: list[Node], word: str) -> Status:
        """Decide one condition and run what follows it; the `elif` and `else` behind it are the other way."""
        at = next((i for i, child in enumerate(children) if child.type == word), len(children))
        others = [child for child in children if child.type in ("elif_clause", "else_clause")]
        body = [child for child in children[at + 1 :] if child.type not in ("elif_clause", "else_clause")]
        status, assumed = self._decided(lambda: self.all(child for child in children[:at] if child.is_named))
        if status in (YES, NO):
            ways: list[Callable[[], Status]] = [lambda: self.all(body), lambda: self._otherwise(others)]
            taken, other = ways if status == YES else reversed(ways)
            if self._is_guard(taken, assumed, children[0]):
                other()
            return RAN
        self._state.branch(lambda: self.all(body), lambda: self._otherwise(others))
        return MAYBE

    def _otherwise(self, others: list[Node]) -> Status:
        if not others:
            return YES
        if others[0].type == "else_clause":
            return self.run(others[0])
        with self._state.deeper():
            return self._choice([*others[0].children, *others[1:]], "then")

    def _for(self, node: Node) -> Status:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        values = [word for child in node.children_by_field_name("value") for word in self.expander.fields(child)]
        if variable is None or body is None:
            return RAN
        if not any(child.type == "in" for child in node.children):
            values = list(self._state.positional or [])
        for value in values:
            self.assign(text_of(variable), value)
            if not self._round(body, is_sure=is_known(value)):
                break
        return RAN

    def _round(self, body: Node, *, is_sure: bool) -> bool:
        """Go once through the body of a loop. Returns False for the last time."""
        if not is_sure:
            self._state.branch(lambda: self.run(body), lambda: None)
            return True
        self._state.may_leave = False
        try:
            self.run(body)
        except Left as left:
            if left.word == "return":
                raise
            return left.word == "continue"
        return True

    def _c_for(self, node: Node) -> Status:
        parts = {name: node.child_by_field_name(name) for name in ("initializer", "condition", "update", "body")}
        first, condition, update, body = parts.values()
        if first is None or condition is None or update is None or body is None:
            return RAN
        self._arithmetic(text_of(first))
        while (status := self._arithmetic(text_of(condition))) == YES:
            self._state.step()
            if not self._round(body, is_sure=True) or self._state.may_leave:
                return RAN
            self._arithmetic(text_of(update))
        if status == MAYBE:
            self._round(body, is_sure=False)
        return RAN

    def _while(self, node: Node) -> Status:
        body = node.child_by_field_name("body")
        conditions = node.children_by_field_name("condition")
        if body is None:
            return RAN
        going, ending = (NO, YES) if node.children[0].type == "until" else (YES, NO)
        condition = [child for child in conditions if child.is_named]
        self._state.loops += 1
        try:
            while (status := self._decided(lambda: self.all(condition))[0]) == going:
                self._state.step()
                if not self._round(body, is_sure=True) or self._state.may_leave:
                    return RAN
            if status != ending:
                self._round(body, is_sure=False)
        finally:
            self._state.loops -= 1
        return RAN

    def _case(self, node: Node) -> Status:
        word = node.child_by_field_name("value")
        items = [child for child in node.children if child.type == "case_item"]
        value = ""
        if word is not None:
            self._state.presumes_no_arguments, kept = self._state.loops > 0, self._state.presumes_no_arguments
            value = self.expander.joined(word)
            self._state.presumes_no_arguments = kept
        name = self._state.marks.only_variable(value)
        patterns = [[self.expander.joined(one) for one in item.children_by_field_name("value")] for item in items]
        if not name and not is_known(value):
            ways: list[Callable[[], object]] = [partial(self._item, item) for item in items]
            self._state.branch(*ways, *(() if any("*" in each for each in patterns) else (lambda: None,)))
            return MAYBE
        for item, each in zip(items, patterns, strict=True):
            if any(fnmatch.fnmatchcase("" if name else value, pattern) for pattern in each):
                if self._is_guard(partial(self._item, item), {name} if name else set(), word):
                    self._state.branch(*(partial(self._item, other) for other in items if other is not item))
                return RAN
        return RAN

    def _item(self, item: Node) -> Status:
        patterns = item.children_by_field_name("value")
        return self.all(child for child in named(item) if child not in patterns)

    def _define(self, node: Node) -> Status:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self._state.functions[text_of(name)] = body
        return RAN

    def _assignment(self, node: Node) -> Status:
        name, value = self._assigned(node)
        self.assign(name, value)
        return RAN

    def _assigned(self, node: Node) -> tuple[str, Value]:
        """Return the name, and the value that it gets; an element of a list changes the list."""
        target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        adds = any(child.type == "+=" for child in node.children)
        if value is not None and value.type == "array":
            items = [word for child in named(value) for word in self.expander.fields(child)]
            old = self._state.variables.get(text_of(target), [])
            before = old if isinstance(old, list) else [old]
            return text_of(target), [*before, *items] if adds else items
        new = "" if value is None else self.expander.joined(value)
        if target.type == "subscript":
            return self._element(target, new)
        start = self._state.variables.get(text_of(target), "") if adds else ""
        return text_of(target), self._state.made((start if isinstance(start, str) else "".join(start[:1])) + new)

    def _element(self, target: Node, new: str) -> tuple[str, Value]:
        name, *index = [text_of(child) for child in named(target)]
        old = self._state.variables.get(name, [])
        items = list(old) if isinstance(old, list) else [old]
        at = self.expander.arithmetic(index[0]) if index else None
        if at is not None and 0 <= at <= len(items):
            return name, [*items[:at], new, *items[at + 1 :]]
        return name, self._state.unknown(text_of(target))

    def assign(self, name: str, value: Value) -> None:
        self._state.variables[name] = value
        if self._state.exports_all:
            self._state.exported.add(name)

    def _declaration(self, node: Node) -> Status:
        word, *rest = node.children
        flags = [text_of(child) for child in rest if child.type == "word" and text_of(child).startswith("-")]
        exports = word.type == "export" or any("x" in flag for flag in flags)
        for child in rest:
            if child.type == "variable_assignment":
                name, value = self._assigned(child)
                if word.type == "local":
                    self._builtins.keep(name)
                self.assign(name, value)
            elif child.type == "variable_name":
                name = text_of(child)
                if exports:
                    # Its programs get what is set outside.
                    self.expander.value(name)
            else:
                continue
            if exports and "-n" not in flags:
                self._state.exported.add(name)
        return RAN

    def _unset(self, node: Node) -> Status:
        for child in named(node):
            self._state.variables.pop(text_of(child), None)
            self._state.exported.discard(text_of(child))
        return RAN

    def _command(self, node: Node) -> Status:
        own = [child for child in named(node) if child.type == "variable_assignment"]
        name = node.child_by_field_name("name")
        if name is None:
            return self.all(own)
        # The grammar takes assignments on lines of their own for those of the command that follows.
        text = bytes(node.text)
        apart = [child for child in own if b"\n" in _gap(text, node, child, name)]
        self.all(apart)
        parts = [child for child in named(node) if child.type not in _NO_WORDS]
        words = self._words(text, node, parts)
        given = dict(map(self._assigned, (child for child in own if child not in apart)))
        # 'a'\ and 'b' on the next line are one value.
        if given and words and _gap(text, node, own[-1], name) == b"":
            last = next(reversed(given))
            value = given[last]
            given[last] = self._state.made((value if isinstance(value, str) else "".join(value[:1])) + words.pop(0))
        if not words:
            for key, value in given.items():
                self.assign(key, value)
            return RAN
        string = next((child for child in node.children if child.type == "herestring_redirect"), None)
        kept = self._state.document
        self._state.document = kept if string is None else self._document(string)
        try:
            return self.started(words, given, line_of(name))
        finally:
            self._state.document = kept

    def _words(self, text: bytes, node: Node, children: list[Node]) -> list[str]:
        """Return the words of a command.

        The grammar parts some that only an escaped blank or new line seems to part.
        """
        words: list[str] = []
        for i, child in enumerate(children):
            fields = self.expander.fields(child)
            glue = _GLUE.get(_gap(text, node, children[i - 1], child)) if i else None
            if glue is not None and words and fields:
                words[-1] += glue + fields.pop(0)
            words += fields
        return words

    def started(self, words: list[str], given: dict[str, Value], line: int) -> Status:
        """Call a function or a builtin, or note the program that the words start."""
        if words[0] in self._state.functions:
            return self._builtins.call(words)
        if words[0] in _BUILTINS:
            return self._builtins.run(words, line)
        state = self._state
        if (file := self._own_script(words)) is not None:
            return self._inner_script(*file, given)
        environment = state.environment()
        environment |= {key: state.marks.word(value) for key, value in given.items() if isinstance(value, str)}
        parts = tuple(map(state.marks.word, words))
        document = None if state.document is None else state.marks.word(state.document)
        state.start(ShellCommand(parts, environment, state.workdir, line, state.is_certain, document))
        return RAN

    def _own_script(self, words: list[str]) -> tuple[str, list[str]] | None:
        """Return the text of a script that this one has written before and starts now, and its arguments."""
        files = self._state.files
        first = next((i for i, word in enumerate(words[:_LOOK_AHEAD]) if posixpath.normpath(word) in files), None)
        if first is None or (first > 0 and words[0].rpartition("/")[2] not in _STARTERS):
            return None
        return files[posixpath.normpath(words[first])], words[first + 1 :]

    def _inner_script(self, text: str, arguments: list[str], given: dict[str, Value]) -> Status:
        """Go through a script of the script's own making, which has what is exported and nothing else."""
        state = self._state
        kept = state.variables, state.exported, state.workdir, state.positional, state.document
        exported = {key: value for key, value in state.variables.items() if key in state.exported}
        state.variables, state.positional, state.document = exported | given, arguments, None
        state.exported = state.exported | given.keys()
        try:
            with state.deeper():
                return self.text(text if is_known(text) else state.marks.shown(text))
        except Ended:
            return RAN
        finally:
            state.variables, state.exported, state.workdir, state.positional, state.document = kept


def _gap(text: bytes, node: Node, assignment: Node, name: Node) -> bytes:
    """Return what is between two parts of a command of this text: a new line ends it, unless a backslash goes on."""
    begin, end = assignment.end_byte - node.start_byte, name.start_byte - node.start_byte
    return text[begin:end].replace(b"\\\n", b"")


def _first_error(root: Node) -> int:
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.type == "ERROR" or node.is_missing:
            return line_of(node)
        nodes += [child for child in reversed(node.children) if child.has_error]
    return line_of(root)


class _Builtins:
    def __init__(self, state: State, evaluator: Evaluator) -> None:
        self._state, self._evaluator = state, evaluator
        self._kept: list[dict[str, Value | None]] = []

    def keep(self, name: str) -> None:
        """Remember the value that a variable gets back when the function ends."""
        if self._kept:
            self._kept[-1].setdefault(name, self._state.variables.get(name))

    def call(self, words: list[str]) -> Status:
        """Call a function of the script with its own parameters."""
        state = self._state
        before, state.positional = state.positional, words[1:]
        self._kept.append({})
        try:
            with state.deeper():
                return self._evaluator.run(state.functions[words[0]])
        except Left as left:
            if left.word != "return":
                raise
            return RAN
        finally:
            state.positional = before
            for name, value in self._kept.pop().items():
                if value is None:
                    state.variables.pop(name, None)
                else:
                    state.variables[name] = value

    def run(self, words: list[str], line: int) -> Status:
        name = words[0]
        if name in _NOTHING:
            return RAN
        method: Callable[[list[str], int], Status] = getattr(self, f"_{_BUILTINS[name]}")
        return method(words, line)

    def _test(self, words: list[str], line: int) -> Status:
        operands = words[1:-1] if words[0] == "[" and words[-1] == "]" else words[1:]
        return _status(self._evaluator.conditions.of_words(operands))

    def _yes(self, words: list[str], line: int) -> Status:
        return YES

    def _no(self, words: list[str], line: int) -> Status:
        return NO

    def _exit(self, words: list[str], line: int) -> Status:
        raise Ended

    def _leave(self, words: list[str], line: int) -> Status:
        raise Left(words[0])

    def _cd(self, words: list[str], line: int) -> Status:
        folder = self._state.marks.word(words[1] if len(words) > 1 else self._state.outside("HOME"))
        text = folder.text(lambda name: "~" if name == "HOME" else f"${{{name}}}")
        is_plain = folder.is_known and set(folder.variables) <= {"HOME"}
        if is_plain and text.startswith(("/", "~")):
            self._state.workdir = posixpath.normpath(text)
        elif is_plain and self._state.workdir:
            self._state.workdir = posixpath.normpath(posixpath.join(self._state.workdir, text))
        else:
            self._state.workdir = ""
        return RAN

    def _source(self, words: list[str], line: int) -> Status:
        if len(words) > 1:
            self._state.sourced.append(self._state.marks.word(words[1]))
        return RAN

    def _set(self, words: list[str], line: int) -> Status:
        if "--" in words:
            self._state.positional = words[words.index("--") + 1 :]
        elif len(words) > 1 and words[1][0] not in "-+":
            self._state.positional = words[1:]
        for word in words[1:]:
            if word in ("-a", "+a") or (word == "allexport" and words[1] in ("-o", "+o")):
                self._state.exports_all = word == "-a" or words[1] == "-o"
        return RAN

    def _shift(self, words: list[str], line: int) -> Status:
        count = int(words[1]) if len(words) > 1 and words[1].isdecimal() and len(words[1]) < 5 else 1
        if self._state.positional is not None:
            self._state.positional = self._state.positional[count:]
        return RAN

    def _eval(self, words: list[str], line: int) -> Status:
        text = " ".join(words[1:])
        if not is_known(text):
            text = self._state.marks.shown(text)
        with self._state.deeper():
            return self._evaluator.text(text)

    def _read(self, words: list[str], line: int) -> Status:
        for name in words[1:]:
            if name.isidentifier():
                self._evaluator.assign(name, self._state.unknown(f"read {name}"))
        return RAN

    def _exec(self, words: list[str], line: int) -> Status:
        return self._evaluator.started(words[1:], {}, line) if len(words) > 1 else RAN

    def _export(self, words: list[str], line: int) -> Status:
        """Words that are no assignments of their own, such as `export "$PAIR"`."""
        for word in words[1:]:
            name, equals, value = word.partition("=")
            if equals and name.isidentifier():
                self._evaluator.assign(name, value)
            if name.isidentifier():
                self._state.exported.add(name)
        return RAN


_BUILTINS = {
    **dict.fromkeys(("[", "test"), "test"),
    **dict.fromkeys(("true", ":"), "yes"),
    "false": "no",
    "getopts": "no",
    "exit": "exit",
    **dict.fromkeys(("break", "continue", "return"), "leave"),
    **dict.fromkeys(("cd", "pushd"), "cd"),
    **dict.fromkeys(("source", "."), "source"),
    "set": "set",
    "shift": "shift",
    "eval": "eval",
    **dict.fromkeys(("read", "mapfile", "readarray"), "read"),
    **dict.fromkeys(("exec", "builtin"), "exec"),
    "export": "export",
    **dict.fromkeys(_NOTHING, ""),
}
"""Name -> the method that does it."""
