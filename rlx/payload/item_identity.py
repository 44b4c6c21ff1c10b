"""Digest items, answers and validations, so that the same ones are recognised wherever they come again."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from typing import Any

ITEM_BYTES = 12
IDS_KEPT = 8
_TURN = re.compile(r"(.+_\d+)_(\d{1,9})")
_UNIQUE = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})(?:_\d{1,9}){0,2}")
"""A random UUID, to which a trainer may add session and turn. Other ids, such as row numbers, are no proof."""


def plain_text(text: str) -> str:
    """Normalise white space and the forms of characters; the case stays."""
    return " ".join((text if text.isascii() else unicodedata.normalize("NFKC", text)).split())


def item_digest(prompt: str, truth: Any, size: int = ITEM_BYTES) -> bytes:
    """Digest what is asked and what is right, so that rows which differ in spacing alone are one item."""
    text = json.dumps([plain_text(prompt), _plain(truth)], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=size).digest()


def text_digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=size).digest()


def unique_id(uid: Any) -> str:
    """Return the part of an id that is drawn anew for each validation; "" where none is unique by construction."""
    match = _UNIQUE.fullmatch(uid) if isinstance(uid, str) else None
    return match[1] if match else ""


def session_of(uid: Any) -> tuple[str, int]:
    """Split a uid as verl's second trainer writes it: (`<row>_<session>`, turn); ("", 0) for anything else."""
    match = _TURN.fullmatch(uid) if isinstance(uid, str) else None
    return (match[1], int(match[2])) if match else ("", 0)


def turn_of(uid: Any) -> int:
    """Return the turn that an answer stands for, from 0; 0 for an id that names none."""
    return session_of(uid)[1]


class SmallestIds:
    """The few smallest digests of unique ids: validations of which one is a copy of the other have the same."""

    def __init__(self, known: tuple[str, ...] = ()) -> None:
        self._kept = set(known)
        self._bound = ""

    def add(self, uid: Any) -> None:
        if not (unique := unique_id(uid)):
            return
        digest = text_digest(unique, 8).hex()
        if self._bound and digest >= self._bound:
            return
        self._kept.add(digest)
        if len(self._kept) > IDS_KEPT:
            self._kept.remove(max(self._kept))
        if len(self._kept) == IDS_KEPT:
            self._bound = max(self._kept)

    @property
    def kept(self) -> tuple[str, ...]:
        return tuple(sorted(self._kept))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return {key: _plain(each) for key, each in value.items()} if isinstance(value, dict) else value
