"""What a person at a terminal is told while a host does not answer: no command is silent for long."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.rig import Client, Rig
from tests.runs.toys import until

READING, WAITING, ASKING = "reading the runs …", "waiting for the hosts …", "asking h1 …"
LOG = "waiting for the log …"
ANSWERS = {
    "status": WAITING,
    "status --host h1": WAITING,
    "queue h1": WAITING,
    "logs a": LOG,
    "logs -f a": LOG,
    "logs a --grep x": LOG,
    "diagnose a": READING,
    "compare b c": READING,
    "report b": READING,
    "metrics b": READING,
    "rm b": WAITING,
    "retry b": ASKING,
    "adopt h1:/srv/log --name mine": WAITING,
    "attach a": WAITING,
    "data check tiny-cpu --host h1": WAITING,
    "data gsm8k /srv/rows.jsonl --to /srv/made --host h1": "making /srv/made …",
    "plan tiny-cpu --host h1": ASKING,
    "launch tiny-cpu --host h1": ASKING,
}


def test_each_command_says_what_it_waits_for(new_rig: Callable[[int], Rig]) -> None:
    rig = new_rig(1)
    client, host = rig.client, rig.host("h1")
    client.rlx("hosts", "add", "h1", "h1", "--device", "cpu")
    client.path("/root/own.sh").write_text("sleep 1000\n", encoding="utf-8")
    for arm in "abc":
        client.rlx("launch", "--script", "/root/own.sh", "--name", "own", "--arm", arm, "--host", "h1")
    until(lambda: "starting" in client.rlx("status").stdout.decode(), "one of them begins")
    host.cut()
    with ThreadPoolExecutor(len(ANSWERS)) as pool:
        shown = dict(zip(ANSWERS, pool.map(lambda words: on_a_terminal(client, words), ANSWERS), strict=True))
    assert {words: said for words, said in shown.items() if ANSWERS[words] not in said} == {}
    # A script reads what it asked for, and no progress.
    for words in ("queue h1", "launch tiny-cpu --host h1"):
        assert ANSWERS[words] not in client.rlx(*words.split(), check=False).stderr.decode()


def on_a_terminal(client: Client, words: str) -> str:
    command = shlex.join([sys.executable, "-m", "rlx", *words.split()])
    done = client.run("script", "-qc", f"timeout 60 {command}", "/dev/null", check=False)
    return done.stdout.decode()
