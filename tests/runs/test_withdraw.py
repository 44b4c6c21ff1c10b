"""A block is withdrawn from its host or begins there, and never both."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from rlx.model import LOCAL, LaunchPlan, RunState
from rlx.resources import payload_folder
from rlx.runs import Launched, RunRef, launch, query_leases, supervisor
from rlx.runs.launching.launch import Part, send_part
from rlx.runs.launching.shipment import Shipped, block_name, pack
from tests.runs.toys import ended, holder_pid, home, is_running, reaches, start_one, toy_plan, until

GO = "until [ -e go ]; do sleep 0.05; done\n"
BEGINS = 'echo "$RLX_RUN" >>"$RLX_RUN_DIR/../../began"\n'
ASKED = "what was typed"


def block_plans(seed: int = 2) -> list[LaunchPlan]:
    return [toy_plan(BEGINS + GO, arm=arm, seed=seed) for arm in ("a", "b")]


def launched(plans: list[LaunchPlan]) -> Launched:
    return launch(plans, {}, home(), ASKED)


def withdraw(done: Launched, seed: int = 2, moves: int = 0) -> str:
    ids = [ref.run_id for ref in done if ref.seed == seed]
    return supervisor.call(LOCAL, "withdraw", done[0].root, f"{done.launch_id}-s{seed}-{moves}", *ids).strip()


def runs_folder() -> Path:
    return Path(os.environ["RLX_ROOT"], "runs")


def begun() -> list[str]:
    file = Path(os.environ["RLX_ROOT"], "began")
    return file.read_text(encoding="utf-8").split() if file.exists() else []


def waiting() -> set[str]:
    return {ticket.run_id for ticket in query_leases(LOCAL, os.environ["RLX_LEASES"]).waiting}


def let_go(ref: RunRef) -> None:
    (ref.run_dir / "go").touch()


def test_a_block_that_waits_is_withdrawn_as_if_it_had_never_been_there() -> None:
    first = start_one(GO)
    block = launched(block_plans())
    for ref in block:
        reaches(ref, RunState.QUEUED)
    holders = [holder_pid(ref) for ref in block]
    assert withdraw(block) == "withdrawn"
    assert not any(ref.run_dir.exists() for ref in block) and not any(map(is_running, holders)) and not waiting()
    assert withdraw(block) == "withdrawn", "who asks again hears the same"
    let_go(first)
    assert ended(first).state is RunState.FINISHED
    assert begun() == [] and [path.name for path in runs_folder().iterdir() if path.name[0] != "."] == [first.run_id]


def test_a_block_of_which_a_run_has_begun_stays() -> None:
    block = launched(block_plans())
    until(begun, "its first run begins")
    assert withdraw(block) == "started"
    for ref in block:
        let_go(ref)
    assert [ended(ref).state for ref in block] == [RunState.FINISHED, RunState.FINISHED]
    assert begun() == [ref.run_id for ref in block]


def test_what_arrives_after_the_withdrawal_does_not_start_and_a_later_block_does() -> None:
    first = start_one(GO)
    block = launched(block_plans())
    assert withdraw(block) == "withdrawn"
    assert deliver_again(block, moves=0) == [f"withdrawn {ref.run_id}" for ref in block]
    assert not any(ref.run_dir.exists() for ref in block)
    assert deliver_again(block, moves=2) == [f"started {ref.run_id}" for ref in block]
    # What was asked about the earlier one leaves the later one alone.
    assert withdraw(block) == "withdrawn"
    for ref in (first, *block):
        let_go(ref)
    assert {ended(ref).state for ref in block} == {RunState.FINISHED}
    assert begun() == [ref.run_id for ref in block]


def deliver_again(block: Launched, moves: int) -> list[str]:
    """The shipment of the block, as it is on its way after so many moves."""
    name = block_name(block.launch_id, 2, moves)
    pairs = zip(block_plans(), block, strict=True)
    runs = tuple(Shipped(plan, ref, position, name) for position, (plan, ref) in enumerate(pairs))
    return send_part(Part(runs), block.launch_id, pack(runs, {})).out.decode().splitlines()


def test_a_holder_that_nobody_ended_sees_that_its_block_is_gone() -> None:
    first = start_one(GO)
    block = launched(block_plans())
    for ref in block:
        reaches(ref, RunState.QUEUED)
    (runs_folder() / ".blocks" / f"{block.launch_id}-s2-0").write_text("0\n", encoding="utf-8")
    last = launch([toy_plan("true", arm="last")], {}, home())[0]
    let_go(first)
    assert ended(last).state is RunState.FINISHED, "whoever waits behind them goes on"
    until(lambda: not waiting(), "their tickets are gone")
    assert begun() == []


ROUNDS = 40
CONTEST = """
RUNS=$1
run_one() { withdrawn "$run" || { open_block "$run" && echo begun; }; }
for round in $(seq %d); do
    mkdir -p "$RUNS/run$round" "$RUNS/$BLOCKS_DIR"
    echo "block$round" >"$RUNS/run$round/$BLOCK_FILE"
    run=$RUNS/run$round
    { run_one >"$RUNS/$round.a" 2>/dev/null; } &
    { (withdraw "${RUNS%%/runs}" "block$round" "none$round") >"$RUNS/$round.b"; } &
    { run_one >"$RUNS/$round.c" 2>/dev/null; } &
    wait
    echo "$(cat "$RUNS/$round.a" "$RUNS/$round.c" | sort -u) $(cat "$RUNS/$round.b")"
done
"""


def test_one_of_both_comes_first_for_all_runs_of_a_block(tmp_path: Path) -> None:
    """The very functions of supervise.sh, at the same time."""
    parts = sorted((payload_folder() / "supervise").glob("*.sh"))
    functions = "\n".join(part.read_text(encoding="utf-8") for part in parts if part.name < "90")
    script = f"{functions}\nENDED='' LEFT='' GROUP='' ZOMBIES='' WITHIN=''\n{CONTEST % ROUNDS}"
    done = subprocess.run(
        ["sh", "-s", str(tmp_path / "runs")],
        input=script,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        encoding="utf-8",
    )
    rounds = [line.strip() for line in done.stdout.splitlines()]
    assert len(rounds) == ROUNDS and set(rounds) <= {"begun started", "withdrawn"}, done.stdout + done.stderr
