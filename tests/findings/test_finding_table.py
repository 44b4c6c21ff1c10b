"""The table of findings and the code agree: each id has one whole row, in both languages, and means one thing."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

import rlx
from rlx import plug_ins
from rlx.backends.registry import PACKAGES
from rlx.cli.frame.app import command_line
from rlx.errors import UsageError
from rlx.evidence.diagnosis import signatures
from rlx.findings import FindingRow, Language, finding_ids, finding_row, finding_table, free_id
from rlx.findings.finding_table import _parsed
from rlx.model import Finding, Severity, from_jsonable, to_jsonable
from rlx.planning.rules.rule_table import all_rules, rule
from tests.conftest import REPOSITORY

ID = re.compile(r"RLX\d{3}")
HOST_ROW = 'title = "t"\nreason = "r"\nfix = "f"\nzh.title = "标题"\nzh.reason = "原因"\nzh.fix = "修复"\n'


def named_in_code(root: Path) -> dict[str, set[str]]:
    """Id -> the modules that name it as a literal, and the files of signatures that have a row of it."""
    found = defaultdict(set)
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and ID.fullmatch(node.value):
                found[node.value].add(str(path.relative_to(root)))
    for path in (path for path in root.rglob("*.toml") if path.parent.name in ("rows", "diagnosis")):
        for id in re.findall(r'(?m)^id = "(\w+)"$', path.read_text(encoding="utf-8")):
            found[id].add(str(path.relative_to(root)))
    return found


def disagreements(rows: Mapping[str, FindingRow], named: Mapping[str, set[str]]) -> Iterator[str]:
    """What is wrong between the rows and the code, each with what to do; for those who write it, not rlx's words."""
    for id in sorted(named.keys() - rows.keys()):
        yield f"{id} has no row, and {', '.join(named[id])} names it: add one to a file of rlx/findings/"
    for id in sorted(rows.keys() - named.keys()):
        yield f"{id} has a row in {rows[id].section}.toml, and no module names it: report it, or remove the row"
    for id in sorted(rows.keys() & named.keys()):
        if rows[id].modules != len(named[id]):
            yield (
                f"{id} is named in {', '.join(sorted(named[id]))}, and its row says modules = {rows[id].modules}: "
                f"another thing takes a free id, such as {free_id(id)}; the same thing, modules = {len(named[id])}"
            )


def test_code_and_table_have_the_same_ids() -> None:
    rows = {id: finding_row(id) for id in finding_ids()}
    problems = list(disagreements(rows, named_in_code(REPOSITORY / "rlx")))
    assert not problems, "\n".join(problems)


def test_what_disagrees_is_found(tmp_path: Path) -> None:
    """Ids that are taken, that have no row and that are not used any more: each message says what to do."""
    (tmp_path / "checks.py").write_text('Finding("RLX510"); Finding("RLX511"); Finding("RLX510")\n', encoding="utf-8")
    (tmp_path / "diagnosis").mkdir()
    (tmp_path / "diagnosis/1-a.toml").write_text('[[signature]]\nid = "RLX510"\n', encoding="utf-8")
    rows = {id: finding_row(id) for id in ("RLX510", "RLX512")}
    unknown, unused, taken = disagreements(rows, named_in_code(tmp_path))
    assert unknown.startswith("RLX511") and "checks.py" in unknown and "rlx/findings/" in unknown
    assert unused.startswith("RLX512") and "host.toml" in unused
    assert taken.startswith("RLX510") and "checks.py, diagnosis/1-a.toml" in taken
    assert "modules = 1" in taken and free_id("RLX510") in taken and "modules = 2" in taken


def test_every_row_says_in_chinese_what_it_says_in_english() -> None:
    for row in map(finding_row, finding_ids()):
        parts = (row.zh.title, row.zh.reason, row.zh.fix)
        assert any(re.search(r"[\u4e00-\u9fff]", part) for part in parts), row.id
        assert ID.findall("".join(parts)) == ID.findall(row.en.title + row.en.reason + row.en.fix), row.id


def test_rules_and_only_rules_say_who_refuses_what_they_object_to() -> None:
    assert [id for id in finding_ids() if finding_row(id).en.refused_by] == sorted(each.id for each in all_rules())


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (("zh.fix", ""), ["zh.fix"]),
        (("reason", ""), ["reason"]),
        (("reasons", '"r"'), ["reasons"]),
        (("refused_by", '"verl"'), ["refused_at", "zh.refused_at", "zh.refused_by"]),
    ],
    ids=str,
)
def test_a_row_that_lacks_a_part_says_which(
    change: tuple[str, str], parts: list[str], wording: SnapshotAssertion
) -> None:
    import tomllib

    key, value = change
    lines = [line for line in HOST_ROW.splitlines() if not line.startswith(f"{key} ")]
    text = "\n".join([*lines, f"{key} = {value}"] if value else lines)
    with pytest.raises(ValueError, match=".*".join(map(re.escape, parts))) as caught:
        _parsed("RLX510", "host", tomllib.loads(text))
    assert str(caught.value) == wording


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a back-end that brings findings of its own."""
    folder = tmp_path / tmp_path.name  # what was read is kept by the names of packages
    (folder / "findings").mkdir(parents=True)
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(PACKAGES, "toy", tmp_path.name)
    return folder / "findings/host.toml"


def test_a_back_end_brings_rows_of_its_own(toy: Path) -> None:
    toy.write_text(f"[RLX999]\n{HOST_ROW}", encoding="utf-8")
    assert Finding("RLX999", Severity.NOTE, "…").id in finding_ids()
    assert rlx.explain("rlx999", "zh").what == "标题"


def test_an_id_that_is_taken_costs_another_distribution_its_row(toy: Path) -> None:
    toy.write_text(f"[RLX510]\n{HOST_ROW}", encoding="utf-8")
    assert finding_row("RLX510").en.title not in HOST_ROW
    (said,) = (line for line in plug_ins.warnings() if str(toy) in line)
    assert re.search(r"RLX510.*/host\.toml.*/host\.toml", said)


def test_an_id_that_is_taken_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding_table, "folders", lambda name: (Path(finding_table.__file__).parent,))
    with pytest.raises(ValueError, match=r"RLX\d{3}.*/([\w-]+\.toml).*/\1"):
        finding_table._blocks(("read twice",))


def test_a_row_without_its_chinese_names_its_file(toy: Path) -> None:
    toy.write_text(f"[RLX999]\n{HOST_ROW.replace('zh.fix', 'fixes')}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"host\.toml: .*RLX999: fixes .*zh\.fix"):
        finding_row("RLX999")


def test_code_cannot_make_a_finding_that_has_no_row() -> None:
    with pytest.raises(ValueError, match=r"RLX999.*rlx/findings/"):
        Finding("RLX999", Severity.ERROR, "…")


def test_a_recorded_finding_may_be_of_another_rlx() -> None:
    """A plan of a newer rlx, or of a back-end that is not installed here, is read, and its secrets are masked."""
    written = {"id": "RLX999", "severity": "error", "message": "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzabcdefgh"}
    finding = from_jsonable(Finding, written)
    assert (finding.id, finding.fix, finding.step) == ("RLX999", "", None)
    assert "hf_abcdefgh" not in finding.message
    assert from_jsonable(Finding, to_jsonable(finding)) == finding


def test_a_rule_cannot_take_an_id_that_is_taken_or_has_no_row() -> None:
    taken = all_rules()[0]
    with pytest.raises(ValueError, match=rf"{taken.id}.* {taken.module}\.\w+: .*{free_id(taken.id)}"):
        rule(taken.id)(lambda facts: iter(()))
    with pytest.raises(ValueError, match=r"RLX999.*rlx/findings/"):
        rule("RLX999")


def test_a_signature_cannot_take_an_id_that_is_taken_or_has_no_row(toy: Path) -> None:
    toy.write_text(f"[RLX999]\n{HOST_ROW}", encoding="utf-8")
    row = '[[signature]]\nid = "{}"\nkind = "cause"\npattern = "a"\nneedles = ["a"]\nsamples = ["a"]\nothers = ["b"]\n'
    file = toy.parent.parent / "diagnosis/9-toy.toml"
    file.parent.mkdir()
    file.write_text(row.format("RLX804"), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"9-toy\.toml: RLX804.*{free_id('RLX804')}"):
        signatures()
    file.write_text(row.format("RLX998"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"RLX998.*rlx/findings/"):
        signatures()


def test_the_pages_have_the_rows() -> None:
    command = [sys.executable, "-m", "website.finding_tables"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_finding_is_on_one_page() -> None:
    """On one of the two pages that list them, or on both; rlx explain leads nowhere else."""
    pages = [(REPOSITORY / "docs" / name).read_text(encoding="utf-8") for name in ("verdicts.md", "diagnosis.md")]
    assert sorted({*re.findall(r"(?m)^\| (RLX\d{3}) \|", "\n".join(pages))}) == finding_ids()


def explained(*arguments: str) -> str:
    result = CliRunner().invoke(command_line(["explain"]), ["explain", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_finding_is_explained_in_both_languages() -> None:
    assert "micro batch" in explained("RLX104") and "  source: verl 0.6.1" in explained("RLX104")
    chinese = explained("rlx104", "--language", "zh")
    assert "微批次" in chinese and "  原因：" in chinese and "  来源：verl 0.6.1" in chinese


def test_every_finding_is_listed_and_explained() -> None:
    listed = json.loads(explained("--json"))["findings"]
    assert [each["id"] for each in listed] == finding_ids()
    assert not [each["id"] for each in listed if not (each["what"] and each["why"] and each["fix"])]
    assert not [each["id"] for each in listed if "](" in "".join(each.values())], "a link leads from the page alone"


def test_the_words_of_verdicts_are_explained() -> None:
    for word in ("invalid", "incomplete", "unverified", "contradicted", "valid"):
        assert rlx.explain(word.upper()).id == word
    assert rlx.explain("valid", Language.ZH).what != rlx.explain("valid").what
    with pytest.raises(UsageError, match="RLX1044"):
        rlx.explain("RLX1044")
    with pytest.raises(UsageError, match="'de'"):
        rlx.explain("RLX104", "de")
