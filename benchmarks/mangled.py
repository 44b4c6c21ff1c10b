"""Mangle inputs of parsers, each time otherwise: bytes, lines, numbers, values of JSON, and two inputs in one."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

MOST_BYTES = 512_000
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_WORD = re.compile(rb"[A-Za-z_][\w./-]{2,}")
_NUMBERS = (
    *(b"0", b"-1", b"1", b"2", b"7", b"1e309", b"-1e308", b"NaN", b"Infinity", b"-0.0", b"1e-320", b"0x10", b"1_000"),
    *(b"2147483648", b"9223372036854775808", b"18446744073709551616", b"9" * 320, b"9" * 5000, b"1e999999"),
    *("٣".encode(), "²".encode(), b"3.", b".5", b"00012", b"+4", b"true", b"null", b""),
)
_TOKENS = (
    *(
        b"\0",
        b"\r",
        b"\n",
        b"\r\n",
        b"\t",
        b"\x1b[31m",
        b"\x1b]0;x\x07",
        b"\x7f",
        b"\xff\xfe",
        b"\xc3",
        b"\xef\xbb\xbf",
    ),
    *(
        "\u202e".encode(),
        "\u2028".encode(),
        "\ud800".encode(errors="surrogatepass"),
        "\U0001f600".encode(),
        b"..",
        b"../",
    ),
    *(
        b"/",
        b"~",
        b"%s",
        b"${x}",
        b"{{",
        b"}}",
        b"'",
        b'"',
        b"`",
        b"|",
        b": ",
        b"- ",
        b"#",
        b"&a ",
        b"*a",
        b"!!python/x ",
    ),
    *(
        b"<<: ",
        b"[" * 2000,
        b"{" * 500,
        b'{"a":' * 1500,
        b"(" * 300,
        b"a" * 70_000,
        b" " * 5000,
        b"=",
        b",",
        b"[]",
        b"{}",
    ),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1.5, -0.0, 1e308, float("nan"), float("inf"), "", "x", "0"),
    *(
        "a" * 5000,
        "\0",
        "\ud800",
        "\u202e",
        "../../x",
        [],
        {},
        [[]],
        [None],
        {"": None},
        {"a": {"b": [1]}},
        "1e5",
        "NaN",
    ),
)

Mangle = Callable[[bytes, random.Random], bytes]


def mangled(seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """Take one of the seeds, or two, and change it a few times; now and then it stays as it is."""
    data = rng.choice(seeds)
    if len(seeds) > 1 and rng.random() < 0.1:
        data = _spliced(data, rng.choice(seeds), rng)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 5, 9))):
        data = rng.choice(_CHANGES)(data, rng)[:MOST_BYTES]
    return data


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + int(rng.expovariate(1 / 20)))


def _spliced(one: bytes, other: bytes, rng: random.Random) -> bytes:
    return one[: rng.randrange(len(one) + 1)] + other[rng.randrange(len(other) + 1) :]


def _flipped(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return rng.randbytes(4)
    at = rng.randrange(len(data))
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _cut(data: bytes, rng: random.Random) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + data[end:]


def _shortened(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _inserted(data: bytes, rng: random.Random) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + rng.choice(_TOKENS) + data[rng.choice((start, end)) :]


def _repeated(data: bytes, rng: random.Random) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + data[start:end] * rng.choice((2, 3, 50, 3000)) + data[end:]


def _other_number(data: bytes, rng: random.Random) -> bytes:
    return _replaced(data, _NUMBER, rng.choice(_NUMBERS), rng)


def _other_word(data: bytes, rng: random.Random) -> bytes:
    """Replace a word by another one of the same text: keys that come twice, names in the place of values."""
    words = _WORD.findall(data[:20_000])
    return _replaced(data, _WORD, rng.choice(words), rng) if words else data


def _replaced(data: bytes, pattern: re.Pattern[bytes], by: bytes, rng: random.Random) -> bytes:
    found = list(pattern.finditer(data, rng.randrange(len(data) + 1)))[:200]
    if not found:
        return data
    match = rng.choice(found)
    return data[: match.start()] + by + data[match.end() :]


def _other_lines(data: bytes, rng: random.Random) -> bytes:
    """Drop a line, double it, move it, or put it in another's place."""
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return data
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    how = rng.randrange(4)
    if how == 0:
        del lines[one]
    elif how == 1:
        lines.insert(other, lines[one])
    elif how == 2:
        lines[one], lines[other] = lines[other], lines[one]
    else:
        lines[one] = lines[other][: rng.randrange(len(lines[other]) + 1)] + lines[one]
    return b"".join(lines)


def _other_json(data: bytes, rng: random.Random) -> bytes:
    """Change a value of the document, or of one of its lines that is one."""
    found = _json_part(data, rng)
    if found is None:
        return data
    start, end, document = found
    text = json.dumps(_with_other_value(document, rng, 0), ensure_ascii=rng.random() < 0.5)
    return data[:start] + text.encode(errors="surrogatepass") + data[end:]


def _json_part(data: bytes, rng: random.Random) -> tuple[int, int, Any] | None:
    start, end = 0, len(data)
    if data[:1] != b"{" or b"\n{" in data:
        lines = list(re.finditer(rb"^\{.*$", data, re.MULTILINE))[:500]
        if lines:
            start, end = rng.choice(lines).span()
    try:
        return start, end, json.loads(data[start:end])
    except (ValueError, RecursionError):
        return None


def _with_other_value(value: Any, rng: random.Random, depth: int) -> Any:
    if not isinstance(value, (dict, list)) or not value or rng.random() < 0.15 * depth:
        return rng.choice(_VALUES)
    if isinstance(value, list):
        at = rng.randrange(len(value))
        return [*value[:at], _with_other_value(value[at], rng, depth + 1), *value[at + 1 :]]
    key = rng.choice(list(value))
    how = rng.random()
    rest = {name: each for name, each in value.items() if name != key}
    if how < 0.1:
        return rest
    if how < 0.2:
        return {**rest, rng.choice((key + "x", key.upper(), "", "\0", rng.choice(list(value)))): value[key]}
    return {**value, key: _with_other_value(value[key], rng, depth + 1)}


_CHANGES: tuple[Mangle, ...] = (
    *(_flipped, _cut, _shortened, _inserted, _repeated, _other_lines, _other_word),
    *(_other_number, _other_number, _other_json, _other_json, _other_json),
)
