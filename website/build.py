"""Make the site, in build/site: `make site`. It takes Zensical, the extra `docs`, and no network.

Each language is a site of its own, so that its search and its words are its own: English at the root, Chinese in zh/.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from website.navigation import placed, sections
from website.pages import LANGUAGES, REPOSITORY, title, written
from website.reference import PAGES, page

BUILD = REPOSITORY / "build"
HOME = {"en": "README.md", "zh": "README.zh.md"}
_FEATURES = ("navigation.sections", "navigation.footer", "navigation.top", "search.highlight", "content.code.copy")
_BETWEEN_CHINESE = re.compile(
    r"(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])\n *(?=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffefA-Za-z*\[]|`(?!``))"
)
_CODE = re.compile(r"(^```.*?^```$|(?:^ {4}.*?$\n?)+)", re.MULTILINE | re.DOTALL)
_ON_EACH_PAGE = ("tables.css", "tables.js")
_NAMES = {"en": "English", "zh": "中文"}


def build(site: Path, work: Path) -> None:
    """Lay out both languages in `work`, and build them into `site`."""
    shutil.rmtree(site, ignore_errors=True)
    for language in LANGUAGES:
        folder = work / language
        shutil.rmtree(folder, ignore_errors=True)
        lay_out(language, folder / "docs")
        (folder / "zensical.toml").write_text(settings(language), encoding="utf-8")
        zensical = Path(sys.executable).with_name("zensical")
        subprocess.run([zensical, "build", "--clean"], cwd=folder, check=True)
        shutil.copytree(folder / "site", site if language == "en" else site / language, dirs_exist_ok=True)


def lay_out(language: str, folder: Path) -> None:
    """Write the pages of a language as one flat folder, with links that hold there."""
    folder.mkdir(parents=True)
    sources = {name: source for name, source in written(language).items() if name in placed(language)}
    for name, source in {"index": REPOSITORY / HOME[language], **sources}.items():
        text = joined(relinked(source.read_text(encoding="utf-8"), source, language))
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    for name in PAGES:
        (folder / f"{name}.md").write_text(page(name, language), encoding="utf-8")
    for files in ("pictures", "example-ab"):
        shutil.copytree(REPOSITORY / "docs" / files, folder / files)
    for name in _ON_EACH_PAGE:
        shutil.copyfile(REPOSITORY / "website" / name, folder / name)


def joined(text: str) -> str:
    """The text without the ends of lines beside Chinese marks, which a browser shows as blanks; code keeps its own."""
    return "".join(
        part if part.startswith(("```", "    ")) else _BETWEEN_CHINESE.sub("", part) for part in _CODE.split(text)
    )


def relinked(text: str, source: Path, language: str) -> str:
    """The text with its links as the site has them; a file that the site lacks is only named."""
    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", lambda found: _link(found, source, language), text)


def _link(found: re.Match[str], source: Path, language: str) -> str:
    mark, words, target = found.groups()
    if re.match(r"https?://|mailto:|#", target):
        return found[0]
    path, _, heading = target.partition("#")
    place = _place((source.parent / path).resolve(), language)
    if not place:
        return f"{words}"
    if words == Path(path).name and place.endswith(".md"):
        words = re.split("[:：]", title((source.parent / path).resolve()))[0]
    return f"{mark}[{words}]({place}{'#' + heading if heading else ''})"


def _place(file: Path, language: str) -> str:
    """Where a page of that language finds a file: "" for what is not on the site."""
    inside = file.relative_to(REPOSITORY).as_posix()
    if inside in HOME.values():
        other = next(name for name, home in HOME.items() if home == inside)
        return "index.md" if other == language else ("zh/index.html" if other == "zh" else "../index.html")
    if not inside.startswith("docs/"):
        return ""
    inside = inside.removeprefix("docs/")
    chinese = inside.startswith("zh/")
    if file.suffix != ".md":
        return inside
    name = file.name
    if chinese == (language == "zh"):
        return name
    return ("zh/" if chinese else "../") + name.removesuffix(".md") + ".html"


def settings(language: str) -> str:
    """The settings of Zensical for one language, whose fonts and scripts are its own or the reader's."""
    there = placed(language)
    nav: list[dict[str, object]] = [{"rlx": "index.md"}]
    for section in sections():
        pages = [{_title(name, language): f"{name}.md"} for name in section.pages if name in there]
        nav += [{section.titles[language]: pages}] if pages else []
    up = {"en": "./", "zh": "../"}[language]
    others = [
        {"name": _NAMES["en"], "link": f"{up}index.html", "lang": "en"},
        {"name": _NAMES["zh"], "link": f"{up}zh/index.html", "lang": "zh"},
    ]
    lines = [
        "[project]",
        'site_name = "rlx"',
        "use_directory_urls = false",
        f"nav = {_toml(nav)}",
        f"extra_css = {_toml([_ON_EACH_PAGE[0]])}",
        f"extra_javascript = {_toml([_ON_EACH_PAGE[1]])}",
        "[project.theme]",
        f'language = "{language}"',
        "font = false",
        f"features = {_toml(list(_FEATURES))}",
        "[project.extra]",
        "generator = false",
        f"alternate = {_toml(others)}",
        "[project.markdown_extensions]",
        "tables = {}",
        "attr_list = {}",
        "toc.permalink = true",
        # Headings in Chinese keep their characters as anchors, as they do on GitHub.
        'toc.slugify = {object = "pymdownx.slugs.slugify", kwds = {case = "lower"}}',
        "pymdownx.highlight = {}",
        "pymdownx.superfences = {}",
    ]
    return "\n".join(lines) + "\n"


def _title(name: str, language: str) -> str:
    there = written(language)
    return title(there[name]) if name in there else page(name, language).partition("\n")[0].removeprefix("# ")


def _toml(value: object) -> str:
    """Write lists, tables and words in line; words are quoted as in JSON, which TOML reads alike."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key, ensure_ascii=False)} = {_toml(each)}" for key, each in value.items())
            + "}"
        )
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    build(BUILD / "site", BUILD / "website")
