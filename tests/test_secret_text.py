"""One function tells a secret from other text, by its name and by its form, and alarms nowhere in this repository."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlx.payload.mask_secrets import spellings
from rlx.secret_text import is_secret, lines_with_secrets, mask, masked, names_secret, secrets_in

ROOT = Path(__file__).parent.parent
HEX = "0123456789abcdef0123456789abcdef01234567"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----"
LETTERS = "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"

BY_NAME = (
    *(("HF_TOKEN", "abcdef"), ("wandb_api_key", HEX), ("DB_PASSWORD", "12345678"), ("DB_PASSWORD", 12345678)),
    *(("AWS_SECRET_ACCESS_KEY", "abc/d"), ("PASSPHRASE", "two words"), ("+trainer.hub_token", "abc"), ("apiKey", "x9")),
    *(("OLD_API_KEY_2", "abc"), ("dbpassword", "abc"), ("GITHUB_TOKEN_OLD", "abc"), ("proxy", "me:pw@proxy:80")),
    *(("KAGGLE_KEY", HEX), ("some_key", HEX), ("client_secret", "abc"), ("api_key", "/aB3xYz")),
)
BY_FORM = (
    *(
        "http://me:PW@proxy:8080",
        "https://:PW@index.example/simple",
        "socks5h://me:p@ss:word@[::1]:80/x",
        f"hf_{LETTERS}",
    ),
    *(
        "sk-proj-abcdefghijkl0123",
        f"ghp_{LETTERS}",
        f"github_pat_{LETTERS}",
        f"glpat-{LETTERS}",
        "AKIAABCDEFGHIJKLMNOP",
    ),
    *("xoxb-0123456789-abc", JWT, PEM, "Authorization: Bearer abcdefghijkl", f"curl -H 'X: bearer {LETTERS}'"),
    *(f"wandb login --relogin {HEX}", f"export WANDB_API_KEY={HEX}", "python train.py --hf_token hf_short"),
    *("OPENAI_API_KEY=sk-short cmd", "${DB_PASSWORD:-hunter2}", '{"hf_token": "abc", "x": 1}', "--api-key=abc"),
    *('os.environ["HF_TOKEN"] = "abcdef"', "https://h.example/send?access_token=abc1", '["--token", "abcdefg1"]'),
    *("hf_token: abcdef", "curl --password 'hunter2hunter2' h", "{token:abcdef1,x:1}"),
)
NONE = (
    *(("TRAIN_FILES", "/data/hf_gsm8k_math_train/a.parquet"), ("TOKENIZER_PATH", "/m"), ("max_token_len", "512")),
    *(("num_tokens", 3), ("KEY_TABLE", "abc"), ("use_fused_kernels", True), ("data.prompt_key", "prompt")),
    *(("http_proxy", "http://proxy:8080"), ("http_proxy", "http://me@proxy:8080"), ("x", "http://me:${PW}@proxy")),
    *(("HF_TOKEN", "$HF_TOKEN"), ("HF_TOKEN", "${HF_TOKEN:-}"), ("token", "${oc.env:HF_TOKEN}"), ("HF_TOKEN", "")),
    *(("HF_TOKEN", "xxx"), ("token", "<token>"), ("api_key", "your_key"), ("api_key", "EMPTY"), ("token", "HF_TOKEN")),
    *(("eos_token", "abc"), ("pad_token", "<pad>"), ("image_token", 151655), ("token", 5), ("token", "0.25")),
    *(("GOOGLE_APPLICATION_CREDENTIALS", "/a/b.json"), ("first_pass", "yes"), ("secret", "CORP_PROXY"), ("x", None)),
    *(("x", "Unexpected token: this, at line 3"), ("x", "HF_TOKEN: must be text"), ("x", "use --token to log in")),
    *(
        ("x", "git@github.com:a/b"),
        ("image", "img:tag@sha256:0a"),
        ("x", "hf_tokenizer_of_qwen sk-learn-contrib-of-ours"),
    ),
    *(("x", "token=os.environ['X'], api_key=api_key, key=args.token"), ("x", "/etc/passwd: root"), ("x", "***")),
    *(("x", "perf/total_num_tokens:1234 - token/mean:0.5 - key: abc"), ("x", "sha256:" + HEX), ("commit", HEX)),
)


@pytest.mark.parametrize(("name", "value"), BY_NAME)
def test_a_name_tells(name: str, value: object) -> None:
    assert is_secret(name, value)
    assert str(value) not in str(masked({name: value}))


@pytest.mark.parametrize("text", BY_FORM)
def test_a_form_tells(text: str) -> None:
    assert is_secret("anything", text)
    found = secrets_in(text)
    assert found and all(each not in mask(text) for each in found)
    assert mask(mask(text)) == mask(text), "what is masked is no secret"
    assert lines_with_secrets(f"a\n\n{text}") == [3]


@pytest.mark.parametrize(("name", "value"), NONE)
def test_others_are_left_alone(name: str, value: object) -> None:
    assert not is_secret(name, value)
    assert masked({name: [value]}) == {name: [value]}


def test_what_is_around_a_secret_stays() -> None:
    assert mask("http_proxy=http://me:PW@proxy:8080 a") == "http_proxy=http://me:***@proxy:8080 a"
    assert mask('{"hf_token": "a b", "x": 1}') == '{"hf_token": "***", "x": 1}'
    assert json.loads(mask(json.dumps({"text": 'say "password=abc" or Authorization: x"'})))


def test_a_password_in_a_url_is_looked_for_in_logs_alone_too() -> None:
    for url in (text for text in BY_FORM if "://" in text and "@" in text):
        password = url.partition("://")[2].rpartition("@")[0].partition(":")[2] + "-and-more"
        longer = f"http://me:{password}@proxy:80"
        assert secrets_in(longer) == [password]
        assert password.rpartition("@")[2].encode() in b"".join(spellings(longer.encode()))


def texts() -> Iterator[Path]:
    """All that people write or run here: recipes, templates, documents, programs, scripts and logs."""
    for folder in ("recipes", "templates", "docs", "rlx", "tests/cases"):
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.is_file() and path.suffix != ".pyc")


# They hold secrets on purpose.
WITH_SECRETS = (
    *("cases/hosts/password-in-", "cases/hosts/proxy-with-value", "cases/hosts/secret-in-", "cases/init-from/ray-job"),
    *("cases/recipe/env-secret", "cases/recipe/secret-in-any-value", "cases/recipe/secret-with-value"),
)
# Examples that write an address with a password to say that it is refused, and names of modes that are called so.
EXAMPLES = ("https://me:hunter2@", "http://me:hunter2@", '"token": "token_k1"')


def test_no_false_alarm_in_this_repository() -> None:
    alarms = []
    for path in texts():
        text = path.read_text(encoding="utf-8", errors="replace")
        if any(part in str(path) for part in WITH_SECRETS):
            continue
        lines = text.split("\n")
        alarms += [
            f"{path}: {lines[at - 1][:100]}"
            for at in lines_with_secrets(text)
            if not any(example in lines[at - 1] for example in EXAMPLES)
        ]
    assert alarms == []


def keys(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from keys(inner)


def test_no_key_of_a_back_end_alarms() -> None:
    files = [*ROOT.glob("rlx/backends/*/keys/**/*.json")]
    pairs = [pair for path in files for pair in keys(json.loads(path.read_text(encoding="utf-8")))]
    assert len(files) > 5 and len(pairs) > 2000
    assert [name for name, value in pairs if is_secret(name, value)] == []
    assert {name for name, _ in pairs if names_secret(name)} == {"hub_token"}


@pytest.mark.parametrize(
    "text", ["a", "token ", "token= ", "key=1 ", "a.b.c.key_", "http://a:", "wandb login ", "sk-a", "eyJaaaaaaaaa", "-"]
)
def test_long_texts_take_no_square_of_their_length(text: str) -> None:
    """A text twice as long takes about twice the time; one that is looked through again at each place four times."""

    def seconds(size: int) -> float:
        begun = time.process_time()
        mask(text * (size // len(text)))
        return time.process_time() - begun

    assert seconds(400_000) < 12 * seconds(100_000) + 0.2
