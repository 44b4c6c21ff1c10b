"""No value of a secret comes through, however it is cut and spelled; all else does, byte for byte."""

from __future__ import annotations

import base64
import itertools
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.payload import mask_secrets
from rlx.payload.mask_secrets import MASK, SHORTEST, Masker, spellings
from rlx.runs.launching.shipment import env_file

PROGRAM = Path(mask_secrets.__file__)
TOKEN = "hf_Zk3/+é 'q\"\\9=&x"
LETTERS = st.binary(min_size=SHORTEST, max_size=30).filter(
    lambda value: not set(value) & set(b"\0* ") and mask_secrets.is_long_enough(value.strip())
)


def masked(values: list[bytes], text: bytes, cuts: list[int]) -> bytes:
    masker = Masker({form for value in values for form in spellings(value)})
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    return b"".join([*map(masker.feed, pieces), masker.end()])


@given(
    values=st.lists(LETTERS, min_size=1, max_size=3),
    between=st.lists(st.binary(max_size=12).filter(lambda text: b"*" not in text), min_size=4, max_size=4),
    cuts=st.lists(st.integers(0, 150)),
)
@settings(max_examples=300, deadline=None)
def test_no_value_comes_through_however_it_is_cut(values: list[bytes], between: list[bytes], cuts: list[int]) -> None:
    parts = [part for pair in zip(between, [*values, *values[:1] * 3], strict=False) for part in pair]
    text = b"".join(parts) + b" " * 200
    shown = masked(values, text, cuts)
    assert not any(value in shown for value in values)
    # One piece or many is the same, but for how often a mask stands where values touch.
    assert squeezed(shown) == squeezed(masked(values, text, []))


def squeezed(text: bytes) -> bytes:
    return re.sub(rb"(\*{3})+", MASK, text)


@given(text=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300)))
@settings(max_examples=200, deadline=None)
def test_what_is_no_value_passes_unchanged(text: bytes, cuts: list[int]) -> None:
    assert masked([b"a value that no text here has"], text, cuts) == text


def test_of_two_values_the_longer_is_masked_whole() -> None:
    values = [b"password", b"password-9f8e7d6c"]
    for cut in range(30):
        assert squeezed(masked(values, b"x password-9f8e7d6c y password z\n", [cut])) == b"x *** y *** z\n"


def test_only_the_beginning_of_a_value_is_held_back() -> None:
    masker = Masker(spellings(b"hf_0123456789"))
    assert masker.feed(b"step 1\rstep 2 h") == b"step 1\rstep 2 "
    assert masker.feed(b"!") == b"h!"
    assert masker.feed(b"hf_01234567") == b""
    # A training that was killed within its value has shown enough of it.
    assert masker.end() == MASK


@pytest.mark.parametrize(
    "spelled",
    [
        str,
        repr,
        ascii,
        json.dumps,
        lambda value: json.dumps({"env": {"T": value}}, ensure_ascii=False),
        lambda value: repr(value.encode()),
        shlex.quote,
        quote,
        quote_plus,
        lambda value: quote(value, safe=""),
        lambda value: base64.b64encode(value.encode()).decode(),
        lambda value: base64.urlsafe_b64encode(f"me:{value}".encode()).decode(),
        lambda value: base64.b64encode(f"user:{value}\n".encode()).decode(),
        lambda value: value.encode().hex(),
        lambda value: f"https://me:{value}@host/x",
    ],
)
def test_what_programs_make_of_a_value_is_masked(spelled: Callable[[str], str]) -> None:
    shown = masked([TOKEN.encode()], f"x {spelled(TOKEN)} y\n".encode(), [])
    assert MASK in shown
    # At most the few characters that depend on what stood beside it.
    assert len(shown) < 45 and b"Zk3" not in shown


def test_each_line_of_a_value_and_the_password_of_a_url_are_masked() -> None:
    key = b"-----BEGIN KEY-----\nMIIEow==abcd\nlastline\n-----END KEY-----\n"
    assert masked([key], b"1 MIIEow==abcd 2 lastline 3\n", []) == b"1 *** 2 *** 3\n"
    assert masked([b"http://me:pa55w0rd@10.0.0.1:80"], b"user me, pa55w0rd\n", []) == b"user me, ***\n"


def run_program(
    exports: Path, values: dict[str, str], *arguments: str, text: bytes = b"", stdout: int = subprocess.PIPE
) -> bytes:
    """As supervise.sh starts it: the exports are an open file."""
    exports.write_bytes(env_file(values).encode(errors="surrogateescape"))
    program = [sys.executable, "-I", "-S", str(PROGRAM), *arguments]
    command = ["sh", "-c", 'exec 6<"$1"; shift; exec "$@"', "sh", str(exports), *program]
    return subprocess.run(command, input=text, stdout=stdout, check=True, timeout=60).stdout or b""


def test_the_program_reads_the_file_of_exports(tmp_path: Path) -> None:
    values = {"T": TOKEN, "U": "line one of it\nexport V='x'\n", "SHORT": "on"}
    text = f"on {TOKEN} and line one of it\n\udcff".encode(errors="surrogateescape")
    assert run_program(tmp_path / "env", values, "print", text=text) == b"on *** and ***\n\xff"


def test_a_full_disk_ends_nothing(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        run_program(tmp_path / "env", {"T": TOKEN}, "print", text=b"x" * 300_000, stdout=full.fileno())


def test_files_are_masked_in_place(tmp_path: Path) -> None:
    run = tmp_path / "run"
    texts = {
        "attempts/1/metrics.jsonl": f"{{'a': {TOKEN}}}\n".encode(),
        "attempts/1/honest": b"nothing\n",
        "attempts/1/picture": b"\0" + TOKEN.encode(),
        "attempts/1/state/exit": TOKEN.encode(),
        "checkpoints/weights": TOKEN.encode(),
        "launch.sh": TOKEN.encode(),
    }
    for name, text in texts.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(text)
    outside = tmp_path / "outside"
    outside.write_text(TOKEN, encoding="utf-8")
    (run / "attempts/link").symlink_to(outside)
    before = (run / "attempts/1/metrics.jsonl").stat()
    run_program(tmp_path / "env", {"T": TOKEN}, "files", str(run / "attempts"))
    after = (run / "attempts/1/metrics.jsonl").stat()
    stars = b"*" * len(TOKEN.encode())
    masked = {"attempts/1/metrics.jsonl": b"{'a': " + stars + b"}\n"}
    assert {name: (run / name).read_bytes() for name in texts} == texts | masked
    assert (before.st_size, before.st_mtime_ns, before.st_ino) == (after.st_size, after.st_mtime_ns, after.st_ino)
    assert outside.read_text(encoding="utf-8") == TOKEN


@pytest.mark.parametrize("value", ["short", "1234567", "123456789012345"])
def test_what_stands_in_a_log_by_chance_is_not_masked(tmp_path: Path, value: str) -> None:
    text = f"step 3: {value} tokens\n".encode()
    assert run_program(tmp_path / "env", {"T": value}, "print", text=text) == text


@pytest.mark.parametrize("value", ["12345678x", "1234567890123456"])
def test_a_number_of_16_digits_stands_in_no_log_by_chance(tmp_path: Path, value: str) -> None:
    assert run_program(tmp_path / "env", {"T": value}, "print", text=f"in {value} out\n".encode()) == b"in *** out\n"
