"""Read the norm weights of a model folder on this machine from its safetensors files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import frexp
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rlx.errors import RlxError
from rlx.local_files import open_regular, parse_json

if TYPE_CHECKING:
    from rlx.model.rounding import Weights

# Eight bytes of length, the header as JSON, then the tensors: https://huggingface.co/docs/safetensors.
_LENGTH_BYTES, _LONGEST_HEADER, _LONGEST_NORM = 8, 32 << 20, 4 << 20


def norm_weights(folder: str | Path) -> Weights:
    """Read the norm weights of a model folder: value -> how often, one value for all that rounding treats alike.

    Rounding asks only for the power of two below a weight, and whether it is one itself. Raises RlxError where no
    weights can be read.
    """
    folder = Path(folder)
    counts: Counter[float] = Counter()
    for path in sorted(folder.glob("*.safetensors")):
        counts += _counted(path)
    if not counts:
        raise RlxError(f"{folder}: no norm weights in *.safetensors files", "give the folder of the model's weights")
    return counts


def _counted(path: Path) -> Counter[float]:
    counts: Counter[float] = Counter()
    try:
        with open_regular(path) as stream:
            for values in _norms(stream):
                for value, count in Counter(values).items():
                    counts[_binade(value)] += count
    except (OSError, ValueError, KeyError, TypeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise RlxError(f"{path}: no weights can be read ({reason})", "give a whole model folder") from None
    return counts


def _binade(weight: float) -> float:
    """A stand-in between the powers of two around it; a power of two is its own, since the gap below it is halved."""
    mantissa, exponent = frexp(abs(weight))
    return abs(weight) if mantissa in (0.0, 0.5) else 0.75 * 2.0**exponent


def _norms(stream: BinaryIO) -> Iterator[list[float]]:
    """The values of each norm weight: vectors that are called so."""
    length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
    header = parse_json(stream.read(length)) if length <= _LONGEST_HEADER else None
    if not isinstance(header, dict):
        raise ValueError("this is no safetensors file")
    for name, tensor in header.items():
        if "norm" in name and name.endswith(".weight") and len(tensor["shape"]) == 1:
            first, last = tensor["data_offsets"]
            if not 0 <= first <= last <= first + _LONGEST_NORM:
                raise ValueError(f"{name[:100]} is no vector of norm weights")
            stream.seek(_LENGTH_BYTES + length + first)
            yield _values(stream.read(last - first), tensor["dtype"])


def _values(data: bytes, dtype: str) -> list[float]:
    import numpy

    if dtype == "BF16":
        # The upper half of a float32.
        numbers: Any = (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    else:
        numbers = numpy.frombuffer(data, {"F16": "<f2", "F32": "<f4"}[dtype])
    return [float(number) for number in numbers]
