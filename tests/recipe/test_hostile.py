"""Whatever the bytes: a recipe or an error within a second, in little memory, and never anything else."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.errors import UsageError
from rlx.recipe import RecipeFile, load_recipe
from tests.recipe.conftest import RECIPE

MANY = 10**6 - 100

# Everything below the size limit, and all of it hostile.
HOSTILE = {
    "open-lists": "a: " + "[" * MANY,
    "open-maps": "{a: " * (MANY // 4),
    "keys-of-keys": "? " * (MANY // 2),
    "lists-in-lists": "- " * (MANY // 2),
    "long-list": "a: [" + "1," * (MANY // 2) + "]",
    "long-map": "".join(f"k{n}: 1\n" for n in range(80_000)),
    "one-key-often": "a: 1\n" * (MANY // 5),
    "unknown-keys": "".join(f"{'x' * 60}{n}: 1\n" for n in range(4_900)),
    "broken-arms": RECIPE + "".join(f"  a{n}: {{trian: 1}}\n" for n in range(1_500)),
    "sixty-broken-arms": RECIPE + "".join(f"  a{n}: {{" + "x: 1, " * 60 + "}\n" for n in range(60)),
    "digits": "a: " + "9" * MANY,
    "exponent": "a: 1e" + "9" * 1000,
    "dotted-digits": "a: " + "1." * (MANY // 2),
    "underscores": "a: 1" + "_" * MANY + "x",
    "long-word": "x" * MANY,
    "long-key": "x" * MANY + ": 1",
    "long-quote": "a: '" + "x" * MANY,
    "long-tag": "a: !" + "x" * MANY,
    "long-anchor": "a: &" + "x" * MANY,
    "escapes": 'a: "' + "\\x41" * (MANY // 4) + '"',
    "empty-lines": "\n" * MANY + "a: [",
    "comments": "#\n" * (MANY // 2) + "a",
    "spaces": " " * MANY + "a: 1",
    "deep-indent": "".join(f"{' ' * n}a:\n" for n in range(1_300)),
    "billion-laughs": "a: &a [x]\n" + "".join(f"b{n}: [*a, *a]\n" for n in range(9_000)),
    "colons": "a" + ": a" * (MANY // 3),
    "quotes": "a: " + "'' " * (MANY // 3),
    "name": RECIPE.replace("name: exp", f"name: {'é' * 400_000}"),
}

# VmHWM rather than ru_maxrss, which starts with the memory of the process that was forked.
MEASURE = r"""
import json, re, sys, time
from rlx.errors import UsageError
from rlx.recipe import load_recipe
for path in sys.argv[1:]:
    start = time.process_time()
    try:
        load_recipe(path)
        said = None
    except UsageError as error:
        said = len(error.message)
    peak = int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
    print(json.dumps([path, said, time.process_time() - start, peak]))
"""


@pytest.mark.long
def test_hostile_files_cost_neither_time_nor_memory(tmp_path: Path) -> None:
    for name, text in HOSTILE.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", MEASURE, *(str(tmp_path / name) for name in HOSTILE)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, encoding="utf-8")
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    assert len(rows) == len(HOSTILE)
    for path, said, seconds, peak_kib in rows:
        assert said is not None, f"{path} passed for a recipe"
        assert said < 20_000, f"{path}: an error of {said} characters"
        assert seconds < 1, f"{path}: {seconds:.1f} s"
        assert peak_kib < 100 * 1024, f"{path}: {peak_kib // 1024} MiB"


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(10**12)  # sparse: takes no space, but would not fit into memory
    with pytest.raises(UsageError, match="larger than 1 MB"):
        load_recipe(path)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (tmp_path / "pipe", "no regular file"),
        (Path("/dev/zero"), "no regular file"),
        (tmp_path, "folder"),
    ):
        with pytest.raises(UsageError, match=words):
            load_recipe(path)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "", "no/such/file.yaml", "recipe.yaml/x"])
def test_impossible_paths(recipe: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(recipe.parent)
    with pytest.raises(UsageError):
        load_recipe(name)
    recipe.write_text(f'extends: "{name[:4000]}"\n' if "\0" not in name else 'extends: "a\\0b"\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"recipe\.yaml"):
        load_recipe(recipe)


def test_a_file_without_permission(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    recipe.chmod(0)
    with pytest.raises(UsageError, match="Permission denied"):
        load_recipe(recipe)


class _Endless(io.RawIOBase):
    """What `< /dev/zero` looks like, counting what is taken."""

    taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self.taken += len(buffer)
        return len(buffer)


def test_endless_standard_input_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = _Endless()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(endless), encoding="utf-8"))
    with pytest.raises(UsageError, match="larger than 1 MB"):
        load_recipe("-")
    assert endless.taken < 3 * 10**6


def test_standard_input_is_a_recipe_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(RECIPE.replace("lr:", "lrr:").encode()), encoding="utf-8")
    )
    with pytest.raises(UsageError, match=r"stdin:7: train\.lrr: .*\blr\b"):
        load_recipe("-")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile") / "recipe.yaml"


def loads_or_says_why(path: Path) -> None:
    start = time.process_time()
    try:
        file = load_recipe(path)
    except UsageError as error:
        assert error.message
        return
    finally:
        # No bound on speed, but on what grows without end.
        assert time.process_time() - start < 20
    assert isinstance(file, RecipeFile)
    for arm in file.arms:
        json.dumps(file.resolve(arm).document, allow_nan=False)


@settings(deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes(scratch: Path, data: bytes) -> None:
    scratch.write_bytes(data)
    loads_or_says_why(scratch)


# What YAML gives a meaning to, and what people leave behind.
PIECES = st.sampled_from(
    [
        *"\t\n\r:-?#&*!|>'\"%@`{}[],~ 0",
        ": ",
        "- ",
        "\n  ",
        "<<: ",
        "null",
        "yes",
        "1e999",
        ".nan",
        "010",
        "é",
        "\u2028",
        "\x85",
        "🙂",
    ]
) | st.text(max_size=3)


@settings(deadline=None, max_examples=300)
@given(edits=st.lists(st.tuples(st.integers(0, len(RECIPE)), st.integers(0, 12), PIECES), min_size=1, max_size=4))
def test_any_damage_to_a_good_recipe(scratch: Path, edits: list[tuple[int, int, str]]) -> None:
    text = RECIPE
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    scratch.write_bytes(text.encode("utf-8", "surrogatepass"))
    loads_or_says_why(scratch)


@pytest.mark.parametrize("line_break", ["\u0085", "\u2028", "\u2029"])
def test_the_rarer_line_breaks_of_yaml_are_counted_as_it_counts_them(line_break: str, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f'a\t[a: bb"\n{line_break}b', encoding="utf-8")
    with pytest.raises(UsageError, match=r"recipe\.yaml:\d+: "):
        load_recipe(recipe)
