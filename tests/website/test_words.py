"""Check that the pages for users stay short, use plain words, and answer users within two clicks of the README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_architecture import LINK, anchors
from tests.website.pages import FOR_USERS, README, text
from tests.words import PHRASES
from website.pages import DOCS

MOST_WORDS = 25_000
# What code writes: the tables of findings, and the page of captures. What is code: commands and what they print.
CAPTURES = "terminal.md"
MADE = re.compile(r"<!-- ([\w -]+) -->\n.*?<!-- end of \1 -->", re.DOTALL)
CODE = re.compile(r"(?ms)^```.*?^```$|^ {4}.*?$")
# What users ask, the page with the answer, its heading, and a word of the answer that stands under it.
QUESTIONS = {
    "How do I start a run from my own script?": ("scripts", "run-a-script", "rlx run"),
    "How do I make a recipe of my script?": ("recipes", "import-an-existing-launch", "rlx init --from"),
    "How do I register my server?": ("quickstart", "1-environment", "rlx hosts add"),
    "Which arm won?": ("quickstart", "5-launch-and-compare", "rlx compare baseline aqn"),
    "May I report this number?": ("verdicts", "exit-codes", "may be reported"),
    "Why did my run fail?": ("diagnosis", "why-a-run-failed-rlx-diagnose", "rlx diagnose"),
    "Why does my run hang?": ("diagnosis", "hangs", "stalled"),
    "How do I stop a run?": ("remote", "remote-runs", "rlx stop"),
    "How do I continue a run that broke off?": ("runs", "retry", "rlx retry"),
    "What is RLX413?": ("verdicts", "on-the-host", "RLX413"),
    "What does `unverified` mean?": ("verdicts", "what-the-words-mean", "`unverified`"),
    "Does it fit into device memory?": ("memory", "read-the-estimate", "lower"),
    "What do I reduce when memory runs out?": ("quickstart", "4-device-memory", "train.micro_batch_size"),
    "Why does my run wait, and who has the devices?": ("remote", "devices-and-the-queue", "rlx queue"),
    "How do I choose the NPUs?": ("quickstart", "how-do-i-choose-the-npus", "--devices 0,2-3"),
    "How many seeds do I need?": ("statistics", "power-before-a-launch", "rlx power"),
    "How do I compare runs started without rlx?": (
        "scripts",
        "import-the-logs-of-a-finished-run",
        "rlx import",
    ),
    "How do I delete old runs?": ("runs", "delete-files", "rlx prune"),
    "How do I install it without a network?": ("install", "without-a-network", "wheelhouse"),
    "How do I give a token to a training?": ("hosts", "secrets", "--secret-file"),
    "Was there really noise?": ("evidence", "the-chain-of-evidence", "RLX609"),
    "How do I show the evidence to a reviewer?": ("report", "check-a-bundle", "rlx verify"),
    "What was never tested?": ("limitations", "hardware", "NPU"),
}


def prose(page: Path) -> str:
    return CODE.sub("", MADE.sub("", text(page)))


def test_the_pages_for_users_stay_within_their_budget() -> None:
    words = {page.name: len(prose(page).split()) for page in FOR_USERS if page.name != CAPTURES}
    assert 5_000 < sum(words.values()) <= MOST_WORDS, words


@pytest.mark.parametrize("page", FOR_USERS, ids=lambda page: page.stem)
def test_a_page_avoids_the_words_that_the_glossary_replaces(page: Path) -> None:
    if page.name not in ("glossary.md", CAPTURES):
        assert not [found[0] for found in PHRASES.finditer(re.sub(r"`[^`\n]*`", "", prose(page)))]


@pytest.fixture(scope="module")
def within_two_clicks() -> set[Path]:
    first = {README} | linked(README)
    return first.union(*map(linked, first))


def linked(page: Path) -> set[Path]:
    """The pages that this one links to."""
    paths = (target.partition("#")[0] for target in LINK.findall(text(page)))
    return {file for path in paths if path and (file := (page.parent / path).resolve()).suffix == ".md"}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_within_two_clicks(question: str, within_two_clicks: set[Path]) -> None:
    name, heading, answer = QUESTIONS[question]
    page = DOCS / f"{name}.md"
    assert page in within_two_clicks
    assert answer in section(page, heading)


def section(page: Path, anchor: str) -> str:
    """The text under a heading, up to the next one."""
    parts = re.split(r"(?m)^(?=#+ )", text(page))[1:]
    return parts[anchors(page).index(anchor)]
