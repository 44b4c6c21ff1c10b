"""Define the kinds of value that a recipe consists of. Each refuses with one sentence that says what it accepts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from rlx.secret_text import mask

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]*"
# A run directory is called <recipe>-<arm>-s<seed>-<time>-<hex>; file names end at 255 bytes.
NAME_LIMIT = 64
HUB_ID = r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*"
_VARIABLE_PATTERN = r"[A-Za-z_][A-Za-z0-9_]*"


def refuse(text: str, **context: Any) -> PydanticCustomError:
    """Return an error whose text reaches the user unchanged. `key=` moves it to another dotted key of the recipe."""
    # Not a format template: a brace in a user's value must not be taken for one.
    return PydanticCustomError("rlx", "{text}", {"text": text, **context})


def check_name(name: str) -> str:
    if not re.fullmatch(NAME_PATTERN, name) or len(name) > NAME_LIMIT:
        raise refuse(
            f"must be letters, digits, '.', '_' and '-', start with a letter or digit, and have at most "
            f"{NAME_LIMIT} characters, because it becomes part of folder and session names"
        )
    return name


def _check_host_path(path: str) -> str:
    if not path.startswith(("/", "~/")) or "\n" in path:
        raise refuse("must be a path on the host: absolute, or starting with ~/")
    return path


# What a recipe may switch off in rlx's own payload (rlx/payload/rlx_weights.py).
_SWITCHES = frozenset({"RLX_WEIGHT_RECORDS"})


def _check_variable(name: str) -> str:
    if not re.fullmatch(_VARIABLE_PATTERN, name):
        raise refuse(f"{mask(name)!r} is no name of an environment variable (letters, digits and '_')")
    if name.startswith("RLX_") and name not in _SWITCHES:
        raise refuse(f"{name}: names that start with RLX_ belong to rlx")
    return name


def _check_override_key(key: str) -> str:
    if not re.fullmatch(r"(?:\+{1,2}|~)?[^\s=+~'\"]+", key):
        raise refuse(f"{key!r} is no key of a back-end: write it as section.key, without spaces, quotes and '='")
    return key


def _check_model_path(path: str) -> str:
    if not is_hub_id(path) and not (path.startswith(("/", "~/")) and "\n" not in path):
        raise refuse(
            "must be a folder on the host (absolute, or starting with ~/), or ORG/NAME on the Hugging Face hub"
        )
    return path


def is_hub_id(path: str) -> bool:
    """Tell whether it names a model of the Hugging Face hub, such as Qwen/Qwen2.5-0.5B-Instruct, and no folder."""
    return re.fullmatch(HUB_ID, path) is not None and ".." not in path


def _check_finding_id(id: str) -> str:
    if not re.fullmatch(r"RLX\d{3}", id):
        raise refuse(f"{id!r} is no id of a finding, such as RLX104")
    return id


def _check_cause(value: str) -> str:
    if not re.fullmatch(r"lost|RLX\d{3}", value):
        raise refuse(f"{value!r} is neither lost nor the id of a finding, such as RLX805")
    return value


def _auto_or_patterns(word: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value != word and not (isinstance(value, list | tuple) and value):
            raise refuse(f"must be {word} or a list of patterns")
        return value

    return check


def _check_noise_factor(factor: float) -> float:
    if factor <= 0 or factor == 1:
        raise refuse(f"must be above 0 and not 1, found {factor:g}; name layers without noise in exclude")
    return factor


def _check_threshold(value: Any) -> Any:
    """Refuse what is no bound on a probability ratio: a number, `LOW_HIGH`, or one of these for each kind."""
    parts = str(value).split(",") if type(value) in (int, float, str) else []
    if not parts or not all(map(_is_bound, parts)):
        raise refuse('must be a number above 0, or two of them as text, the lower one first: "0.999_1.001"')
    return value


def _is_bound(text: str) -> bool:
    try:
        bounds = [float(part) for part in text.strip().split("_")]
    except ValueError:
        return False
    return len(bounds) <= 2 and all(0 < bound < math.inf for bound in bounds) and bounds == sorted(bounds)


def _check_top_k(top_k: int) -> int:
    if top_k != -1 and top_k < 1:
        raise refuse("must be -1 (all tokens) or at least 1")
    return top_k


Positive = Annotated[int, Field(ge=1, le=2**40)]
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, AfterValidator(check_name), WithJsonSchema({"type": "string", "pattern": f"^{NAME_PATTERN}$"})]
HostPath = Annotated[str, AfterValidator(_check_host_path), WithJsonSchema({"type": "string", "pattern": "^(/|~/)"})]
ModelPath = Annotated[
    str, AfterValidator(_check_model_path), WithJsonSchema({"type": "string", "pattern": f"^(/|~/|{HUB_ID}$)"})
]
Variable = Annotated[str, AfterValidator(_check_variable)]
OverrideKey = Annotated[str, AfterValidator(_check_override_key)]
FindingId = Annotated[
    str, AfterValidator(_check_finding_id), WithJsonSchema({"type": "string", "pattern": r"^RLX\d{3}$"})
]
Cause = Annotated[
    str, AfterValidator(_check_cause), WithJsonSchema({"type": "string", "pattern": r"^(lost|RLX\d{3})$"})
]
Threshold = Annotated[float | Text, BeforeValidator(_check_threshold)]
TopK = Annotated[int, AfterValidator(_check_top_k)]
# YAML has lists; the models are immutable. Only the container is converted, its items stay strict.
Texts = Annotated[tuple[Text, ...], Strict(False)]
Variables = Annotated[tuple[Variable, ...], Strict(False)]
Numbers = Annotated[tuple[float, ...], Strict(False)]
NoiseFactor = Annotated[float, AfterValidator(_check_noise_factor), WithJsonSchema({"type": "number"})]
NoiseTargets = Annotated[Literal["auto"] | Texts, BeforeValidator(_auto_or_patterns("auto"))]
LoraTargets = Annotated[Literal["all-linear"] | Texts, BeforeValidator(_auto_or_patterns("all-linear"))]
