"""Archives that are no bundle: each is refused in words, and none writes anything outside of its folder."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.runs.bundles.bundle_file import belongs, unpack_tar, write_tar
from tests.cli.support import rlx
from tests.wording import settled

TOP = "rlx-bundle/"
LOG = f"{TOP}runs/toy-a-s1/attempts/1/log"
Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, content: bytes = b"x", **fields: object) -> Member:
    made = tarfile.TarInfo(name)
    made.size = len(content)
    for field, value in fields.items():
        setattr(made, field, value)
    return made, content


def packed(members: Iterable[Member], format: int = tarfile.PAX_FORMAT) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz", format=format) as tar:
        for made, content in members:
            tar.addfile(made, io.BytesIO(content) if made.isreg() else None)
    return raw.getvalue()


def zeros(size: int) -> bytes:
    """A file of so many zeros."""
    made = tarfile.TarInfo(LOG)
    made.size = size
    raw = io.BytesIO()
    with gzip.GzipFile(fileobj=raw, mode="wb") as text:
        text.write(made.tobuf())
        for _ in range(size >> 20):
            text.write(bytes(1 << 20))
    return raw.getvalue()


def header(size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A header that claims so many bytes, and some of them. Of headers, tarfile reads what they claim at once."""
    made = tarfile.TarInfo(LOG)
    made.size, made.type = size, kind
    return gzip.compress(made.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))


def link(kind: bytes, target: str) -> list[Member]:
    return [member(LOG, b"", type=kind, linkname=target), member(LOG)]


HOSTILE: dict[str, Callable[[], bytes]] = {
    "a path upwards": lambda: packed([member("../outside")]),
    "a path upwards below": lambda: packed([member(f"{TOP}runs/../../outside")]),
    "an absolute path": lambda: packed([member("/nowhere/outside")]),
    "a run called ..": lambda: packed([member(f"{TOP}runs/../manifest.json")]),
    "a symbolic link": lambda: packed(link(tarfile.SYMTYPE, "/etc/passwd")),
    "a hard link": lambda: packed(link(tarfile.LNKTYPE, "../outside")),
    "a device": lambda: packed([member(LOG, b"", type=tarfile.CHRTYPE)]),
    "a pipe": lambda: packed([member(LOG, b"", type=tarfile.FIFOTYPE)]),
    "a folder": lambda: packed([member(f"{TOP}runs", b"", type=tarfile.DIRTYPE)]),
    "a program": lambda: packed([member(f"{TOP}runs/toy-a-s1/launch.sh")]),
    "an index": lambda: packed([member(f"{TOP}index.db")]),
    "what is stated of a run": lambda: packed([member(f"{TOP}bundled/toy-a-s1.json")]),
    "a name with a line end": lambda: packed([member(f"{LOG}\n")]),
    "a file twice": lambda: packed([member(LOG), member(LOG)]),
    "too many files": lambda: packed(
        member(f"{TOP}runs/toy-a-s1/attempts/1/validation/{n}.jsonl", b"") for n in range(20_001)
    ),
    "a bomb": lambda: zeros(400 << 20),
    "a header without end": lambda: header(1 << 40, tarfile.XHDTYPE),
    "a name without end": lambda: header(1 << 40, tarfile.GNUTYPE_LONGNAME),
    "a sparse file": lambda: header(1 << 40, tarfile.GNUTYPE_SPARSE),
    "a file of exabytes": lambda: header(1 << 62),
    "a file of less than nothing": lambda: header(-(1 << 20)),
    "half of it": lambda: packed([member(LOG, bytes(range(256)) * 400)])[:300],
    "no archive": lambda: b"step:1 - reward:0.5\n",
    "a gzipped log": lambda: gzip.compress(b"step:1 - reward:0.5\n" * 100),
    "nothing": lambda: b"",
    "no bundle.json": lambda: packed([member(LOG)]),
}


def of_rlx(text: str, archive: Path) -> str:
    """The text without what Python says of a damaged archive."""
    return re.sub("(is damaged): .*", r"\1: <reason>", settled(text, {str(archive): "archive"}))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused(name: str, tmp_path: Path, wording: SnapshotAssertion) -> None:
    archive, folder = tmp_path / "evidence.tar.gz", tmp_path / "deep/inside"
    archive.write_bytes(HOSTILE[name]())
    folder.mkdir(parents=True)
    if name == "no bundle.json":
        unpack_tar(archive, folder, belongs)
    else:
        with pytest.raises(RlxError) as refused:
            unpack_tar(archive, folder, belongs)
        assert str(archive) in refused.value.message
        assert of_rlx(refused.value.message, archive) == wording
    outside = [path for path in tmp_path.rglob("*") if not path.is_relative_to(folder)]
    assert sorted(outside) == [tmp_path / "deep", archive]
    assert not [path for path in folder.rglob("*") if path.is_symlink()]


@pytest.mark.parametrize("name", ["a path upwards", "half of it", "no bundle.json", "nothing"])
def test_the_command_says_so(name: str, tmp_path: Path, wording: SnapshotAssertion) -> None:
    archive = tmp_path / "evidence.tar.gz"
    archive.write_bytes(HOSTILE[name]())
    said = rlx("judge", str(archive), code=1)
    assert (said.stdout, "fix:" in said.stderr) == ("", True)
    assert of_rlx(said.stderr, archive) == wording


@pytest.mark.parametrize("name", ["folder", "missing.tar.gz"])
def test_what_cannot_be_read_is_told(name: str, tmp_path: Path, wording: SnapshotAssertion) -> None:
    (tmp_path / "folder").mkdir()
    refused = rlx("judge", str(tmp_path / name), code=1).stderr
    assert settled(refused, {str(tmp_path): "folder"}) == wording


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    names = [f"runs/{'long-' * 50}s1/attempts/1/{name}" for name in ("log", "hydra/.hydra/config.yaml")]
    for name in names:
        (tmp_path / "from" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "from" / name).write_text(f"this is {name}", encoding="utf-8")
    with (tmp_path / "evidence.tar.gz").open("wb") as file:
        write_tar(tmp_path / "from", names, "made by rlx", file)
    (tmp_path / "to").mkdir()
    unpack_tar(tmp_path / "evidence.tar.gz", tmp_path / "to", belongs)
    assert {name: (tmp_path / "to" / name).read_text(encoding="utf-8") for name in names} == {
        name: f"this is {name}" for name in names
    }


HEAD = b'{"format": 1, "rlx": "0.2.0", "asked": {"names": [], "metric": null, "seeds": []}, '
OUTSIDE = b"""{"run_id": "../../outside", "launch_id": "l", "name": "n", "arm": "a", "seed": 1, "node": 0,
    "position": 0, "created": 1.0, "state": "", "missing": "", "manifest": ""}"""
DOCUMENTS = {
    "no JSON": b"{",
    "a list": b"[]",
    "no format": b"{}",
    "nested deeply": b"[" * 100_000,
    "no claims": HEAD + b'"runs": []}',
    "a run outside": HEAD + b'"claims": {}, "runs": [' + OUTSIDE + b"]}",
    "a run twice": HEAD + b'"claims": {}, "runs": [' + b",".join([OUTSIDE.replace(b"../", b"")] * 2) + b"]}",
    "a run of no seed": HEAD
    + b'"claims": {}, "runs": ['
    + OUTSIDE.replace(b"../", b"").replace(b"1,", b"null,")
    + b"]}",
    "a run of no time": HEAD
    + b'"claims": {}, "runs": ['
    + OUTSIDE.replace(b"../", b"").replace(b"1.0", b"1e99")
    + b"]}",
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_that_cannot_be_read_is_told(name: str, tmp_path: Path) -> None:
    archive = tmp_path / "evidence.tar.gz"
    archive.write_bytes(packed([member(f"{TOP}bundle.json", DOCUMENTS[name])]))
    said = rlx("judge", str(archive), code=1).stderr
    assert str(archive) in said and "bundle.json" in said
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "evidence.tar.gz") == []
