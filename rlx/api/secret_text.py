"""Find passwords, keys and tokens in the text of others' scripts, so that nothing of it shows one."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SHOWN = "***"
_LEAST = 8
# Variables that hold a secret; PROMPT_KEY and the like name a column.
_VARIABLE = re.compile(r"(?:.*_)?(?:PASS(?:WORD|WD)?|SECRET|TOKEN|(?:API|ACCESS|SECRET|PRIVATE|AUTH|WANDB)_?KEY)")
# Words of text that are secrets by their own form, or by what stands before them.
_FORMS = re.compile(
    r"\b(?:hf_|sk-|ghp_|gho_|ghs_|github_pat_|glpat-|AKIA|xox[abp]-)[A-Za-z0-9_-]{8,}"
    r"|(?<=://)[^/\s:@'\"]*:[^/\s@'\"]+(?=@)"
    r"|(?<=[Bb]earer )\S+"
)
_NAMED = re.compile(
    r"((?:[\w-]*(?:password|passwd|secret|api[_-]?key|access[_-]?key|(?<![a-z])token))(?:\s*[=:]\s*|\s+)['\"]?)([^\s'\"$]{4,})",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"(?:.*[._-])?(?:password|passwd|secret|api_?key|access_?key|secret_?key|(?:hf|auth|access|wandb|api)_?token)",
    re.IGNORECASE,
)


class Secrets:
    """The secrets of one script: by the names of its variables, and by form."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        values = {value for name, value in variables.items() if _VARIABLE.fullmatch(name.upper())}
        self._values = sorted((value for value in values if _is_telling(value)), key=len, reverse=True)

    def masked(self, text: str) -> str:
        """The text with *** for each."""
        for value in self._values:
            text = text.replace(value, _SHOWN)
        return _NAMED.sub(rf"\g<1>{_SHOWN}", _FORMS.sub(_SHOWN, text))

    def is_in(self, text: str) -> bool:
        return _FORMS.search(text) is not None or any(value in text for value in self._values)

    def moved_out(self, key: str, value: object, names: list[str]) -> object:
        """The value of a key, with a variable in place of each secret in it, whose name is added to `names`."""
        if isinstance(value, Mapping):
            return {inner: self.moved_out(f"{key}.{inner}", each, names) for inner, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.moved_out(key, each, names) for each in value]
        if not self._is_secret(key, value):
            return value
        names.append(re.sub(r"\W", "_", key.lstrip("+~").rpartition(".")[2]).upper())
        return f"${{oc.env:{names[-1]}}}"

    def _is_secret(self, key: str, value: object) -> bool:
        """Tell whether a key of a back-end holds a secret, by its name or its value."""
        if not isinstance(value, str) or not value or value.startswith("${"):
            return False
        last = key.lstrip("+~").rpartition(".")[2]
        is_named = bool(_KEY.fullmatch(last)) or (last.isupper() and bool(_VARIABLE.fullmatch(last)))
        return is_named or self.is_in(value)

    def masked_value(self, value: object) -> object:
        """The same for the texts in a value."""
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, Mapping):
            return {key: self.masked_value(inner) for key, inner in value.items()}
        return [self.masked_value(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _is_telling(value: str) -> bool:
    """Tell whether to look for the value elsewhere: not for short words and paths."""
    return len(value) >= _LEAST and not value.startswith(("/", "~", "$")) and not re.search(r"\s", value)
