"""Read `name:number` pairs out of a line, in all the ways in which Python prints a number."""

from __future__ import annotations

import re

# No digit may be read in two ways: for a value of 20,000 of them, that would take half a minute.
_VALUE = re.compile(
    r"(?:np\.\w+\()?([-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf(?:inity)?))\)?s?(?=\s|$)",
    re.IGNORECASE,
)
_NUMPY = "np.float64(", ")"


def read_pairs(body: str, separator: str) -> dict[str, float]:
    """The pairs whose value is a number; what else stands between the separators is left out."""
    values = {}
    for item in body.split(separator):
        key, _, text = item.rpartition(":")
        if text.endswith(_NUMPY[1]) and text.startswith(_NUMPY[0]):
            # Most numbers of newer trainers: raising and matching would take twice the time.
            text = text[len(_NUMPY[0]) : -1]
        try:
            value = float(text)
        except ValueError:
            if (found := _VALUE.match(text.strip())) is None:
                continue
            value = float(found[1])
        if (key := key.strip()) and " " not in key:
            values[key] = value
    return values
