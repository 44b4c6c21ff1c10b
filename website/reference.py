"""Write the reference from the code: commands with their options, the keys of a recipe, every finding.

What the program prints is English, and stands in both languages as it is. What is around it is in the language of the
reader, and so is what the findings mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

WORDS = {
    "en": {
        "commands": "Commands",
        "recipe": "Keys of a recipe",
        "findings": "Findings",
        "about_commands": "As `rlx COMMAND --help` prints them.",
        "about_recipe": "As `rlx schema` has them for editors; `rlx show RECIPE` prints the values of a recipe.",
        "about_findings": "As `rlx explain ID` prints them. How verdicts are reached: [Evidence](evidence.md).",
        "option": "option",
        "argument": "argument",
        "meaning": "meaning",
        "key": "key",
        "default": "default",
        "required": "required",
        "examples": "Examples:",
        "why": "Why",
        "fix": "Fix",
        "source": "Source",
        "colon": ": ",
        "top": "Top level",
    },
    "zh": {
        "commands": "命令",
        "recipe": "配方的键",
        "findings": "发现",
        "about_commands": "与 `rlx COMMAND --help` 的输出一致；程序的输出是英文，这里不翻译。",
        "about_recipe": "与 `rlx schema` 提供给编辑器的内容一致；`rlx show RECIPE` 打印一份配方的值。",
        "about_findings": "`rlx explain ID --language zh` 的输出，依据保留原文。判定怎样得出：[证据](evidence.md)。",
        "option": "选项",
        "argument": "参数",
        "meaning": "含义",
        "key": "键",
        "default": "默认值",
        "required": "必填",
        "examples": "示例：",
        "why": "为什么重要",
        "fix": "修复办法",
        "source": "依据",
        "colon": "：",
        "top": "顶层",
    },
}


def commands(language: str) -> Iterator[str]:
    """Every command by the group of its help."""
    import typer

    from rlx.cli.frame.app import command_line
    from rlx.cli.frame.commands import GROUPS

    words = WORDS[language]
    yield f"# {words['commands']}\n\n{words['about_commands']}\n"
    all_of_them = typer.main.get_command(command_line()).commands  # type: ignore[attr-defined]
    for group, names in GROUPS.items():
        yield f"## {group}\n"
        for name in names:
            for own, command in _leaves(name, all_of_them[name]):
                yield from _command(own, command, words)


def _leaves(name: str, command: Any) -> list[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    return [(f"{name} {own}", leaf) for own, leaf in below.items()] if below else [(name, command)]


def _command(name: str, command: Any, words: dict[str, str]) -> Iterator[str]:
    from rlx.cli.frame.commands import EXAMPLES

    yield f"### rlx {name}\n\n{_escaped(command.help)}\n"
    options = [param for param in command.params if getattr(param, "help", None)]
    if options:
        yield f"| {words['option']} | {words['meaning']} |\n|---|---|"
        yield "".join(f"| `{_spelled(param)}` | {_cell(param.help)} |\n" for param in options)
    yield f"{words['examples']}\n\n" + "".join(f"    {line}\n" for line in EXAMPLES[name])


def _spelled(param: Any) -> str:
    return ", ".join(param.opts) if param.param_type_name == "option" else str(param.name).upper()


def recipe(language: str) -> Iterator[str]:
    """Every key by the section that has it."""
    from rlx.recipe.editor_schema import editor_schema

    words, schema = WORDS[language], editor_schema()
    yield f"# {words['recipe']}\n\n{words['about_recipe']}\n"
    yield from _section(words["top"], schema, words)
    for name, section in schema["$defs"].items():
        if name != "Arm" and section.get("properties"):
            yield from _section(name, section, words)


def _section(name: str, section: dict[str, Any], words: dict[str, str]) -> Iterator[str]:
    yield f"## {name}\n\n{_escaped(section.get('description', ''))}\n"
    yield f"| {words['key']} | {words['meaning']} | {words['default']} |\n|---|---|---|"
    for key, value in section["properties"].items():
        default = f"`{_cell(str(value['default']))}`" if "default" in value else ""
        yield f"| `{key}` | {_cell(value.get('description', ''))} | {default} |"
    yield ""


def findings(language: str) -> Iterator[str]:
    """Every finding, with why it matters, how it is mended, and where the fact comes from."""
    from rlx.api.diagnosing import explain_all

    words = WORDS[language]
    yield f"# {words['findings']}\n\n{words['about_findings']}\n"
    for one in explain_all(language):
        rows = [(words["why"], one.why), (words["fix"], one.fix), (words["source"], one.source)]
        parts = "".join(f"- **{name}**{words['colon']}{_escaped(text)}\n" for name, text in rows if text)
        yield f"## {one.id}\n\n{_escaped(one.what)}\n\n{parts}"


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _escaped(text: str | None) -> str:
    return (text or "").replace("<", "&lt;")


PAGES: dict[str, Callable[[str], Iterator[str]]] = {
    "reference-commands": commands,
    "reference-recipe": recipe,
    "reference-findings": findings,
}


def page(name: str, language: str) -> str:
    return "\n".join(PAGES[name](language)).rstrip() + "\n"
