"""Find passwords, keys and tokens in text, by the names of values and by their form.

Recipes and files of hosts are refused if they hold a secret, and all that rlx shows or sends is masked. Any
package may import this module.

A name is judged by its last words: HF_TOKEN, wandb_api_key and DB_PASSWORD name secrets; TRAIN_FILES, max_token_len,
eos_token and data.prompt_key do not. A value is judged by its form: the password in a URL, tokens of known services, a
JWT, a private key, the value of `Authorization:`. References to a secret (`$HF_TOKEN`, `${oc.env:HF_TOKEN}`) and
placeholders (`xxx`, `<token>`, `your_key`, EMPTY) are no secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

MASK = "***"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_BEHIND = re.compile(r"\d+|b(?:ase)?64|dev|new|old|prod|test|value")
_PASSWORD = re.compile(r".*passw(?:or)?ds?|passphrase")
_SECRETS = re.compile(
    r"secret|credentials?|(?:access|api|auth|private|secret)key|(?:access|api|auth)token|clientsecret"
)
_KEYS = re.compile(
    r"access|account|admin|api|auth|deploy|encryption|hf|kaggle|license|master|openai|private|secret|session|signing"
    r"|storage|subscription|swanlab|wandb"
)
# Words before `token` that speak of a model or a loss: eos_token, per_token.
_OF_TEXT = re.compile(
    r"additional|answer|audio|avg|begin|bonus|bos|by|class|cls|current|draft|each|end|eos|every|extra|fim|first|func"
    r"|function|generated|image|in|input|is|label|last|loss|mask|max|mean|mid|min|multi|n|new|next|num|of|output|pad|per"
    r"|placeholder|prefix|prev|previous|prompt|question|query|response|role|sampled|sentinel|sep|single|special|start"
    r"|stop|suffix|target|teacher|text|think|thinking|to|tool|unk|video|vision|vocab"
)
# Words before `pass` that count passes: forward_pass.
_PASSES = re.compile(r"backward|by|eval|first|forward|max|min|multi|n|num|one|per|second|single|two")

# A text that each match contains, in lower case, and the form; its group `value` is the secret.
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (hint, re.compile(form))
    for hint, form in (
        ("://", r"://[^\s/@:'\"]{0,200}:(?P<value>[^\s/'\"]{1,1000})@"),
        ("hf_", r"(?P<value>hf_(?<![A-Za-z0-9_-]hf_)[A-Za-z0-9]{20,})"),
        ("sk-", r"(?P<value>sk-(?<![A-Za-z0-9_-]sk-)(?=[A-Za-z_-]{0,100}[0-9])[A-Za-z0-9_-]{16,})"),
        ("gh", r"(?P<value>gh[oprsu]_(?<![A-Za-z0-9_-]gh[oprsu]_)[A-Za-z0-9]{16,})"),
        ("github_pat_", r"(?P<value>github_pat_[A-Za-z0-9_]{16,})"),
        ("glpat-", r"(?P<value>glpat-[A-Za-z0-9_.-]{16,})"),
        ("akia", r"(?P<value>AKIA(?<![A-Za-z0-9]AKIA)[A-Z0-9]{16})\b"),
        ("xox", r"(?P<value>xox[abeoprs]-(?<!\wxox.-)[A-Za-z0-9-]{8,})"),
        ("eyj", r"(?P<value>eyJ(?<!\weyJ)[A-Za-z0-9_-]{8,1000}\.eyJ[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?)"),
        (
            "private key-----",
            r"(?P<value>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[^-]{0,16384}(?:-----END [A-Z0-9 ]{0,40}-----)?)",
        ),
        (
            "authorization",
            r"[Aa]uthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:(?i:basic|bearer|token)\s{1,3})?+(?P<value>(?:[^\s'\"<>\\]|\\(?![\"'])){4,})",
        ),
        ("bearer ", r"[Bb]earer\s{1,3}(?P<value>(?=[A-Za-z._~+/=-]{0,100}[0-9])[A-Za-z0-9._~+/=-]{12,})"),
        (
            "curl",
            r"\bcurl\s(?:[^\n|;&]{0,200}\s)?(?:-u\s{0,3}|--user[\s=])[\"']?[^\s:\"'$-][^\s:\"']{0,100}:(?P<value>[^\s\"')]{1,200})",
        ),
        ("wandb login", r"wandb login\s(?:[\w -]{0,40}\s)?(?P<value>[0-9a-f]{40})\b"),
    )
)
_USER = re.compile(r"[^\s/@:]*:([^\s/@]+)@[\w.-]+(?::\d{1,5})?/?")
_IN_NAMES = r"(?i:token|key|pass(?:w(?:or)?ds?|phrase)?|secret|credentials?)"
_VALUE = r"(?:\\?[\"'](?P<quoted>[^\"'\n\\]{1,1000}+)|(?P<bare>(?!=)(?:[^\s\"'\\]|\\(?![\"'])){1,1000}+))"
# NAME=VALUE, "NAME": "VALUE", ${NAME:-VALUE}, ["NAME"] = "VALUE" and "NAME", "VALUE", from a word of the name on.
_BLANK = r"[ \t]{0,40}"
_PAIR = re.compile(
    rf"{_IN_NAMES}(?:_[A-Za-z0-9]{{1,6}}|\d{{1,4}})?"
    rf"(?P<between>\\?[\"']?\]?{_BLANK}(?::[-=]|=|:){_BLANK}|\\?[\"'],{_BLANK}(?=\\?[\"']))" + _VALUE
)
# --name VALUE
_OPTION = re.compile(rf"(?<!\S)--(?=[\w-]{{0,80}}{_IN_NAMES})(?P<name>[\w-]{{1,200}}+)[ \t]{{1,40}}" + _VALUE)
_ENDS = ",;.`"
_OPENERS = {")": "(", "]": "[", "}": "{"}
_OF_NAME = re.compile(r"[\w.-]*+")
_LONGEST_NAME = 200
_DIGIT = re.compile(r"\d")
_NEXT_WORD = re.compile(r"[ \t]+[A-Za-z]")
_RANDOM = re.compile(r"(?=[A-Za-z+/=]*[0-9])(?=[0-9+/=]*[A-Za-z])[A-Za-z0-9+/=]{20,}")
_REFERENCE = re.compile(
    r"\$\w+|\$\{[^{}]*\}|\$\(.*\)|\$\{\{.*\}\}|\{\{?[^{}]*\}?\}|`.*`|<.*>|\[.*\]|%\w+%|os\.environ.*|[A-Za-z_][\w.]*[(\[].*"
    r"|(?:self|args?|opts?|options|config|cfg|conf|settings|env|kwargs)\.[\w.]+"
)
_PLACEHOLDER = re.compile(
    r"[x*.…-]+|(?:your|my)[-_ ]?(?:own[-_ ]?)?(?:\w+[-_ ])*(?:api[-_]?)?(?:key|token|password|secret)(?:[-_ ]here)?"
    r"|your[-_ ].*|change[-_ ]?(?:me|it)|empty|dummy|none|null|nil|true|false|yes|no|on|off|todo|placeholder|redacted",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[+-]?(?:\d{1,6}|\d{0,20}\.\d*)(?:[eE][+-]?\d+)?")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_HINTS = ("token", "key", "pass", "secret", "credential")


def names_secret(name: str) -> bool:
    """Return whether a variable, key or option of this name holds a secret; of a dotted key, the last part decides."""
    words = _words(name)
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "key":
        return _KEYS.fullmatch(before) is not None
    if last in ("token", "pass"):
        return not (_OF_TEXT if last == "token" else _PASSES).fullmatch(before)
    return (_SECRETS.fullmatch(last) or _PASSWORD.fullmatch(last)) is not None


def is_secret(name: str, value: object) -> bool:
    """Return whether a value of this name is a secret or contains one."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return False
    return _is_named(name, str(value)) or (isinstance(value, str) and mask(value) != value)


def secret_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each secret in a text, in order; overlapping ones are joined."""
    lower = text.lower()
    if len(lower) != len(text):  # the lower case of a few letters is longer
        lower = "".join(letter.lower() if letter.isascii() else letter for letter in text)
    spans: list[tuple[int, int]] = []
    for start, end in sorted({*_by_form(text, lower), *_by_name(text, lower)}):
        if spans and start < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def mask(text: str) -> str:
    """Return the text with *** in place of each secret."""
    parts, at = [], 0
    for start, end in secret_spans(text):
        parts += [text[at:start], MASK]
        at = end
    return "".join([*parts, text[at:]])


def secrets_in(text: str) -> list[str]:
    """List the secrets in a text."""
    return [text[start:end] for start, end in secret_spans(text)]


def lines_with_secrets(text: str) -> list[int]:
    """List the numbers, from 1, of the lines in which a secret begins."""
    return list(dict.fromkeys(text.count("\n", 0, start) + 1 for start, _ in secret_spans(text)))


def masked(value: Any, name: str = "") -> Any:
    """Return a value of maps and lists with *** in place of each secret."""
    if isinstance(value, Mapping):
        return {key: masked(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(inner, name) for inner in value]
    if not is_secret(name, value):
        return value
    text = mask(str(value))
    return text if text != str(value) else MASK


@lru_cache(4096)
def _words(name: str) -> list[str]:
    """Split a name into its words, without numbers and qualifiers at its end. Do not change the list: it is cached."""
    words = [word.lower() for word in _WORDS.findall(name.rpartition(".")[2])]
    while len(words) > 1 and _BEHIND.fullmatch(words[-1]):
        words.pop()
    return words


def _is_named(name: str, value: str) -> bool:
    """Return whether a value is a secret because of its name."""
    value = value.strip()
    words = _words(name)
    if words and words[-1] == "proxy" and _USER.fullmatch(value):
        return True
    if not names_secret(name):
        return bool(words) and words[-1] == "key" and _RANDOM.fullmatch(value) is not None
    if _NUMBER.fullmatch(value):
        return _PASSWORD.fullmatch(words[-1]) is not None
    is_path = words[-1].startswith("credential") and value.startswith(("/", "~", "."))
    return not (not value or is_path or _is_stand_in(name, value))


def _is_stand_in(name: str, value: str) -> bool:
    """Return whether a value is a reference to a secret, or a placeholder."""
    if _REFERENCE.fullmatch(value) or _PLACEHOLDER.fullmatch(value):
        return True
    # {secret: NAME}
    if _VARIABLE.fullmatch(value) and (name == "secret" or names_secret(value)):
        return True
    return value.lower() == name.rpartition(".")[2].strip("-").lower()


def _by_form(text: str, lower: str) -> Iterator[tuple[int, int]]:
    for hint, form in _FORMS:
        if hint in lower:
            yield from (found.span("value") for found in form.finditer(text) if not _is_stand_in("", found["value"]))


def _by_name(text: str, lower: str) -> Iterator[tuple[int, int]]:
    hints = [hint for hint in _HINTS if hint in lower]
    for option in _OPTION.finditer(text) if hints else ():
        value = _value(option)
        # `use --token to log in`, `--token TEXT`
        if len(value) > 3 and not value.startswith("-") and not value.isupper() and _is_named(option["name"], value):
            yield _span(option)
    for hint in hints:
        at = lower.find(hint)
        while at >= 0:
            end = at + len(hint)
            if found := _PAIR.match(text, at):
                name = _name_to(text, at, found.start("between"))
                if _is_pair(name, found) and _is_named(name, _value(found)):
                    yield (span := _span(found))
                    end = span[1]
            at = lower.find(hint, end)


def _name_to(text: str, at: int, end: int) -> str:
    """Return the name that ends at `end` and has a word at `at`; "" for the last part of a path, as in /etc/passwd."""
    found = _OF_NAME.match(text[max(0, at - _LONGEST_NAME) : at][::-1])
    start = at - (found.end() if found else 0)
    return "" if text[start - 1 : start] == "/" else text[start:end]


def _value(found: re.Match[str]) -> str:
    if found["quoted"]:
        return found["quoted"]
    value = found["bare"].rstrip(_ENDS)
    # A closing bracket that the value does not open belongs to the text around it.
    while (opener := _OPENERS.get(value[-1:])) and value.count(opener) < value.count(value[-1]):
        value = value[:-1].rstrip(_ENDS)
    return value


def _span(found: re.Match[str]) -> tuple[int, int]:
    start = found.start("quoted" if found["quoted"] else "bare")
    return start, start + len(_value(found))


def _is_pair(name: str, found: re.Match[str]) -> bool:
    """Return whether the second word is the value of the first, and not just the next word of a sentence or a list."""
    between, value = found["between"], _value(found)
    if not name or (not found["quoted"] and value.startswith(("(", "[", "{"))):
        return False
    if _DIGIT.search(value):
        return "," not in between or len(value) > 7
    if "," in between:
        return False
    words = _words(name)
    is_alone = len(words) == 1 and not _PASSWORD.fullmatch(words[0])
    # `Unexpected token: this`, `HF_TOKEN: must be text`
    is_prose = is_alone or (not found["quoted"] and _NEXT_WORD.match(found.string, found.end()) is not None)
    return not (is_prose and between.endswith((" ", "\t")))
