"""Masks the values of a run's secrets in what it writes, on its host. Standard library only.

    python -I -S mask_secrets.py print <PIPE >>LOG 6<ENV     stdin goes to stdout as it comes, with *** for each value
    python -I -S mask_secrets.py files ATTEMPTS 6<ENV       the text files of a run, in place, with * for each byte

ENV has one `export NAME=value` a secret, quoted for a shell. It comes as an open file, so that the values are in no
argument and no environment of this process, and in no file that has a name.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import stat
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, quote_plus

ENV_FD = 6
MASK = b"***"
SHORTEST, SHORTEST_NUMBER = 8, 16
"""Bytes of a value, and of one of digits alone. Shorter ones stand in a log by chance: masked, it would be damaged."""
STATE = "state"
LARGEST = 64 << 20
"""Bytes of a file that is looked through."""
CHUNK = 1 << 16


def main(task: str, *folder: str) -> None:
    exports = shlex.split(os.pread(ENV_FD, os.fstat(ENV_FD).st_size, 0).decode("latin-1"))
    forms = {form for export in exports[1::2] for form in spellings(export.partition("=")[2].encode("latin-1"))}
    if task == "print":
        print_masked(Masker(forms))
    else:
        mask_files(forms, Path(*folder))


def spellings(value: bytes) -> set[bytes]:
    """How a value may be written: whole, its lines, the password of a URL; each plain and in the usual encodings."""
    password = re.search(rb"://[^/@:\s]*:([^/@\s]+)@", value)
    parts = {value, value.strip(), *map(bytes.strip, value.splitlines()), password.group(1) if password else b""}
    forms = {form for part in parts if is_long_enough(part) for form in encodings(part)}
    return {form for form in forms if is_long_enough(form)}


def is_long_enough(part: bytes) -> bool:
    return len(part) >= (SHORTEST_NUMBER if part.isdigit() else SHORTEST)


def encodings(part: bytes) -> set[bytes]:
    """Return the bytes as they are, escaped as programs print them, as in a URL, in base64 and in hex."""
    text = part.decode("utf-8", "surrogateescape")
    escaped = [repr(text)[1:-1], ascii(text)[1:-1], repr(part)[2:-1], shlex.quote(text)[1:-1] if "'" in text else text]
    escaped += [json.dumps(text, ensure_ascii=wide)[1:-1] for wide in (True, False)]
    in_url = [quote(part, safe="").encode(), quote(part).encode(), quote_plus(part).encode()]
    in_url += [re.sub(rb"%..", lambda found: found.group().lower(), form) for form in in_url]
    packed = [in_base64(part, offset) for offset in range(3)]
    packed += [form.translate(bytes.maketrans(b"+/", b"-_")) for form in packed]
    digits = [part.hex().encode(), part.hex().upper().encode()]
    return {part, *(form.encode("utf-8", "surrogateescape") for form in escaped), *in_url, *packed, *digits}


def in_base64(part: bytes, offset: int) -> bytes:
    """Encode it behind so many other bytes; only the characters that do not depend on what is around it."""
    encoded = base64.b64encode(bytes(offset) + part)
    return encoded[(0, 2, 3)[offset] : len(encoded) - (0, 3, 2)[(offset + len(part)) % 3]]


def spans_of(forms: set[bytes], text: bytes) -> list[tuple[int, int]]:
    """Where any of the forms stands, as (start, end); what overlaps or touches is one."""
    found = []
    for form in forms:
        start = text.find(form)
        while start >= 0:
            found.append((start, start + len(form)))
            start = text.find(form, start + 1)
    return merged(found)


def merged(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


class Masker:
    """Masks a stream. What may be the beginning of a form is held back until it is known to be none, and nothing else.

    `_masked` bytes at the beginning of what is held are part of a form whose mask has been written.
    """

    def __init__(self, forms: set[bytes]) -> None:
        self._forms = forms
        self._longest = max(map(len, forms), default=0)
        self._first = {form[0] for form in forms}
        self._held = b""
        self._masked = 0

    def feed(self, data: bytes) -> bytes:
        """Take the next piece and return what may be shown now."""
        text = self._held + data
        return self._shown(text, self._beginning(text), [])

    def end(self) -> bytes:
        """Return the rest. The beginning of a value is masked, too, if it is as long as a value must be."""
        text, length = self._held, len(self._held)
        return self._shown(text, length, [(0, length)] if length >= SHORTEST else [])

    def _shown(self, text: bytes, end: int, more: list[tuple[int, int]]) -> bytes:
        before = [(0, self._masked)] if self._masked else []
        out: list[bytes] = []
        at, rest = 0, max(0, self._masked - end)
        for start, stop in merged([*before, *spans_of(self._forms, text), *more]):
            if start >= end:
                break
            out += [text[at:start], b"" if start == 0 and self._masked else MASK]
            at, rest = min(stop, end), max(0, stop - end)
        self._held, self._masked = text[end:], rest
        return b"".join([*out, text[at:end]])

    def _beginning(self, text: bytes) -> int:
        """Find the first place from which the rest of the text is the beginning of a form."""
        for place in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[place] in self._first and self._begins_one(text[place:]):
                return place
        return len(text)

    def _begins_one(self, rest: bytes) -> bool:
        return any(len(form) > len(rest) and form.startswith(rest) for form in self._forms)


def print_masked(masker: Masker) -> None:
    while data := os.read(0, CHUNK):
        write(masker.feed(data))
    write(masker.end())


def write(data: bytes) -> None:
    """Write all of it. On a full disk it is lost, as it would be without this: the run goes on."""
    while data:
        try:
            data = data[os.write(1, data) :]
        except OSError:
            return


def mask_files(forms: set[bytes], attempts: Path) -> None:
    """Mask in place what the run wrote, but for large files and those that are no text.

    What was launched is beside `attempts`, and what the supervisor noted in the `state` of each: a value may be a word
    of these, and changed they would be told as forged.
    """
    for parent, folders, names in os.walk(attempts):
        if Path(parent).parent == attempts:
            folders[:] = [name for name in folders if name != STATE]
        for name in names:
            with suppress(OSError):
                mask_file(forms, Path(parent, name))


def mask_file(forms: set[bytes], path: Path) -> None:
    """Keep its length and its time, since both are evidence. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not SHORTEST <= found.st_size <= LARGEST:
            return
        text = os.pread(descriptor, found.st_size, 0)
        spans = spans_of(forms, text) if b"\0" not in text[:CHUNK] else []
        for start, end in spans:
            os.pwrite(descriptor, b"*" * (end - start), start)
        if spans:
            os.utime(descriptor, ns=(found.st_atime_ns, found.st_mtime_ns))
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main(*sys.argv[1:])
