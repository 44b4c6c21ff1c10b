"""No script takes long, much memory, or a traceback, and none is run."""

from __future__ import annotations

import time

import pytest

from rlx.errors import UsageError
from rlx.shell_reader import Unknown, Variable, read_script

REFUSED = {
    "while true; do :; done": "does not come to its end",
    "until false; do x=$((x+1)); done": "does not come to its end",
    "while true; do python3 -m x; done": "does not come to its end",
    "f() { f; }; f": "calls itself",
    "f() { g; }; g() { f; }; f": "calls itself",
    "f() { eval f; }; f": "calls itself",
    "X=a; while true; do X=$X$X; done": "more than 64 KB",
    "for i in {1..1000}; do for j in {1..1000}; do echo $i $j; done; done": "more than 1000 commands",
    "\0": "is no text",
    "x" * 70_000: "larger than 64 KB",
    "a | " * 2_000: "more than 1000 pipes",
}
READ = [
    *(
        "",
        "\n",
        "echo \\",
        "a='",
        "x[",
        "${",
        "${}",
        "$",
        "((",
        "for",
        "case $X in",
        "!",
        "[",
        "[ ]",
        "test -z",
        ". ",
        "cd ''",
    ),
    *(
        "set --; shift 99999999999",
        "x=$(( 9**99**99 ))",
        "x=${X%%*a*a*a*a*a*b}",
        "unset",
        "export",
        "read",
        "local x=1",
    ),
    *("a=(" * 500, "$(" * 3000, "${a:-" * 2000, "if true; then " * 500, "((" * 500, "exit 0; f", "return; f", "break"),
]


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:20]))
def test_what_has_no_end_is_refused_in_a_sentence(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(UsageError) as refused:
        read_script(text, "run.sh")
    assert refused.value.message.startswith("run.sh: ") and REFUSED[text] in refused.value.message
    assert refused.value.hint
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("text", READ, ids=lambda text: repr(text[:20]))
def test_what_is_broken_is_read_as_far_as_it_goes(text: str) -> None:
    begun = time.process_time()
    read_script(text, "run.sh")
    assert time.process_time() - begun < 2


def test_what_is_unknown_stays_as_it_is_written() -> None:
    read = read_script('A=$(date +%s)\nrun name=x_$A "$1" $OUT <(cat y)', "run.sh")
    words = read.commands[0].words
    assert words[1].parts == ("name=x_", Unknown("$(date +%s)"))
    assert words[2].parts == (Unknown("$1"),)
    assert words[3].parts == (Variable("OUT"),)
    assert [word.text() for word in words[1:]] == ["name=x_$(date +%s)", "$1", "${OUT}", "<(cat y)"]
    assert [word.is_known for word in words] == [True, False, False, True, False]


def test_where_nobody_can_tell_both_ways_are_gone() -> None:
    text = "X=1\nif grep -q a b; then X=2; run then; else run otherwise; fi\nrun $X\n"
    text += "if command -v nothing; then exit 1; fi\nrun end"
    read = read_script(text, "run.sh")
    found = [(each.words[1].text(), each.is_certain) for each in read.commands if each.words[0].text() == "run"]
    assert found == [("then", False), ("otherwise", False), ("2 or 1", True), ("end", True)]


def test_a_loop_that_waits_is_gone_through_once() -> None:
    text = "while true; do\n  if ray status | grep -q 8; then break; fi\n  run wait\n  sleep 5\ndone\n"
    text += "until curl -sf localhost; do run again; done\n"
    text += "for i in 1 2 3; do if ping -c1 x; then break; fi; run $i; done\nrun end"
    read = read_script(text, "run.sh")
    found = [each.words[1].text() for each in read.commands if each.words[0].text() == "run"]
    assert found == ["wait", "again", "1", "2", "3", "end"]


def test_nothing_behind_an_exit_is_read() -> None:
    read = read_script("run a\n[ -z x ] && exit 1\nif [ a = a ]; then exit 0; fi\nrun b", "run.sh")
    assert [each.words[1].text() for each in read.commands] == ["a"]
