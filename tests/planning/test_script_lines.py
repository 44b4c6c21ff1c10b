"""Lines of a users' script that reach beyond its run, and honest ones that look alike."""

from __future__ import annotations

import pytest

from rlx.model import Severity
from rlx.planning.script_lines import findings_of
from rlx.shell_reader.contained_commands import Reach

RUDE = {
    "RLX031": [
        "pkill -9 python",
        "sudo pkill -f main_ppo || true",
        "killall ray",
        "ray stop --force",
        "ray \\\n  stop",
        "ps aux | grep python | awk '{print $2}' | xargs kill -9",
        "kill -9 $(pgrep -f vllm)",
        "kill -9 -1",
        "fuser -k /dev/davinci0",
        "rm -rf /tmp/ray",
        "echo cleaning; pkill python",
        'bash -c "pkill -9 python; ray stop"',
        "python x.py '# not a comment' && pkill python",
        "echo $(pkill python)",
        "echo 'pkill python' | bash",
        "pkill -P 1; pkill python",
        "pkill -P $(pgrep python)",
        "kill $(pgrep -f vllm) && pgrep -P $child",
    ],
    "RLX032": [
        "docker exec -it verl bash -c 'python x.py'",
        "docker run --rm image",
        "docker compose up -d",
        "podman run image",
        "apptainer exec image.sif python x.py",
        "ssh node2 python x.py",
        "srun -N1 python x.py",
    ],
    "RLX046": [
        "ray job submit --address http://127.0.0.1:8265 -- python x.py",
        "/opt/bin/ray job submit --no-wait python x.py",
        "ray job submit",
        "uv run ray job submit --runtime-env=x.yaml -- python x.py",
        "bash -c 'cd x && ray job submit -- python x.py'",
        "nohup sudo env A=1 ray job submit -- python x.py",
        "ray job list || ray job submit -- python x.py",
        "cd x && ray \\\n  job submit -- python x.py",
        "for i in 1 2; do ray job submit -- python x.py; done",
        "submit() { ray job submit -- python x.py; }; submit",
        "JOB=$(ray job submit --no-wait -- python x.py)",
        "JOB=`uv run ray job submit --no-wait -- python x.py`",
        "RAY=ray; $RAY job submit -- python x.py",
        "while :; do :; done; ray job submit -- python x.py",
    ],
    "RLX047": [
        "ray start --head",
        "ray start --head --port=6379 --block",
        "ray start --head --port 6380",
        "PORT=7000; ray start --head --port $PORT",
        "ray start --head --port ${PORT:-6379}",
        "ray start --head --port=$MASTER_PORT",
        "if test -f x; then PORT=1; else PORT=2; fi; ray start --head --port=$PORT",
        "ray start --address=head:6379",
        "ray start --address auto",
        "ray start --address=$(hostname -i):6379",
        "ray start --address=head:$(cat port)",
        "uv run ray start --head",
        "bash -c 'ray start --head'",
        "ray status || ray start --head",
        "ray status 2>/dev/null || { sleep 1; ray start --head; }",
        "if ! ray status; then ray start --head; fi",
        "sleep 1 && ray start --head",
        "start() { ray start --head --port $1; }; start 6379",
        "ray start --head --port 0 && ray start --head --port 1",
        "echo $(ray start --head)",
        "while :; do :; done; ray start --head",
    ],
    "RLX033": ["export CUDA_VISIBLE_DEVICES=0,1", "ASCEND_RT_VISIBLE_DEVICES=0 python x.py"],
    "RLX034": [
        "nohup python x.py",
        "python x.py &",
        "python x.py > train.log 2>&1",
        "python x.py &> train.log",
        'cd "$(dirname "$0")"',
        "cd $(dirname ${BASH_SOURCE[0]})",
    ],
}
HONEST = [
    "# pkill -9 python",
    "python x.py  # then ray stop by hand",
    'echo "never pkill here"',
    "python -m verl.trainer.main_ppo a=1 2>&1 | tee train.log",
    "mkdir -p out && python x.py || exit 1",
    "kill $pid",
    "trap 'kill $!' EXIT",
    "docker --version",
    "export HCCL_BUFFSIZE=512 RAY_DEDUP_LOGS=0",
    "export CUDA_VISIBLE_DEVICES=$RLX_DEVICES",
    'export ASCEND_RT_VISIBLE_DEVICES="${RLX_DEVICES}"',
    "ray status",
    "python skills.py --killed=1 reboots.py",
    "rm -rf /tmp/rays out/checkpoints",
    "export NCCL_SSH=1; openssh_check=1",
    "ls *.ssh /root/.ssh/config",
    "date > started",
    "echo 'srun of a pkill' | tee -a log > out",
    'echo "a; ray stop; docker run b | c `date`"',
    'echo "[done] srun of the sidecar ended" >&2',
    "echo 'first\npkill python\nray start --head'",
    "printf '%s\\n' 'ray job submit -- x' > x.md",
    "cat <<EOF > notes\npkill python\nray start --head\nray job submit -- x\nEOF",
    "cat > notes <<'EOF' && date\nray stop\nEOF",
    "tee notes <<<'ray stop'",
    "pkill -P $server_pid",
    "pkill -TERM -P $$",
    'pkill --signal TERM --parent "${children[0]}"',
    "kill $(pgrep -P $server)",
    "ps -p $server && kill $server",
    "python -c 'import os; os.kill(os.getpid(), 15)'",
    "pgrep -P $$ | xargs kill",
    "# ray start --head",
    "ray start --head --port 0",
    "ray start --head --port=0 --block --disable-usage-stats",
    "PORT=$(python3 free_port.py); ray start --head --port=$PORT; ray start --address=127.0.0.1:$PORT",
    "PORT=$((20000 + RANDOM % 10000)); ray start --head --port $PORT",
    "never() { ray start --head; ray job submit -- x; }",
    "NODES=1; if [ $NODES -gt 1 ]; then ray start --head; fi",
    "false && ray job submit -- python x.py",
    "python x.py --note 'ray start --head'",
    "array start --head; ray list jobs; ray job list",
]


@pytest.mark.parametrize(("found", "text"), [(found, text) for found, texts in RUDE.items() for text in texts])
def test_it_is_shown_with_its_number(found: str, text: str) -> None:
    (finding,) = [each for each in findings_of(f"#!/bin/bash\nset -e\n{text}\n", "script/x.sh") if each.id == found]
    assert "line 3: " in finding.message
    assert finding.where == "script/x.sh"


@pytest.mark.parametrize("text", HONEST)
def test_a_line_that_looks_alike_is_left_in_peace(text: str) -> None:
    assert [each.message for each in findings_of(f"{text}\n", "script/x.sh")] == []


@pytest.mark.parametrize("text", ["cat <<EOF | sh", "bash <<EOF", "cat <<EOF | tee x | bash -s", "x=$(cat <<EOF"])
def test_a_document_that_a_program_gets_is_looked_through(text: str) -> None:
    closing = ")" * text.count("$(")
    (finding,) = findings_of(f"{text}\nray stop\nEOF\n{closing}\n", "script/x.sh")
    assert (finding.id, "line 2: ray stop" in finding.message) == ("RLX031", True)


def test_a_line_is_shown_as_it_is_written() -> None:
    (finding,) = findings_of("x=1\necho 'is over' && ray \\\n  stop # now\n", "script/x.sh")
    assert "line 2: echo 'is over' && ray stop" in finding.message and "now" not in finding.message


def test_only_some_of_many_lines_are_shown() -> None:
    (finding,) = findings_of("pkill python\n" * 30, "script/x.sh")
    assert "line 5: pkill python; and 25 more" in finding.message


REACHED = Reach(frozenset({"ray", "pkill", "killall", "kill", "fuser"}), programs=True)
KEPT = [
    "pkill -9 python",
    "killall ray || true",
    "ray stop --force",
    "ray \\\n  stop",
    "ps aux | grep python | awk '{print $2}' | xargs -r kill -9",
    "kill -9 $(pgrep -f vllm)",
    "kill -9 -1",
    "fuser -k /dev/davinci0",
    'bash -c "pkill -9 python; ray stop"',
    "echo $(pkill python)",
    "timeout 5 ray stop",
    "trap 'ray stop' EXIT",
    "clean() { pkill -9 python; }; clean",
    "source /usr/local/Ascend/ascend-toolkit/set_env.sh; ray stop",
    "ray start --head --port 6379",
    "ray status || ray start --head",
    "ray job submit --address http://127.0.0.1:8265 -- python x.py",
    "for i in 1 2; do ray job submit -- python x.py; done",
    "JOB=$(ray job submit --no-wait -- python x.py)",
    "ray stop; export PATH=/opt/bin:$PATH",
]
NOT_KEPT = [
    "sudo pkill -f main_ppo",
    "/usr/bin/pkill python",
    "/opt/venv/bin/ray stop",
    "export PATH=/opt/bin:$PATH; ray stop",
    "PATH=/opt/bin:$PATH ray stop",
    "conda activate verl && ray stop",
    "source venv/bin/activate; ray start --head",
    ". ~/.bashrc; pkill python",
    'eval "$(conda shell.bash hook)"; ray stop',
    "while read -r x; do ray stop; PATH=/x:$PATH; done",
    "clean() { ray stop; }; source venv/bin/activate; clean",
    "trap 'ray stop' EXIT; source venv/bin/activate",
    "sh -c 'kill -9 -1'",
    "env -i pkill python",
    "builtin kill -9 -1",
    'pkill() { /usr/bin/pkill "$@"; }; pkill python',
    "unset -f ray; ray stop",
    "alias ray=/opt/bin/ray; ray stop",
    "uv run ray stop",
    "uv run ray start --head",
    "ray start --address=head:6379",
    "rm -rf /tmp/ray",
    "killall5 -9",
    "python -c \"import os; os.system('pkill python')\"",
    "python -c 'import os; os.kill(-1, 9)'",
    "ssh other pkill python",
    "docker exec c pkill python",
    "echo 'pkill python' | bash",
]


@pytest.mark.parametrize("text", KEPT)
def test_a_line_that_reaches_what_keeps_it_in_its_run_is_a_note(text: str) -> None:
    found = list(findings_of(f"#!/bin/bash\n{text}\n", "script/x.sh", REACHED))
    assert found and {each.severity for each in found} == {Severity.NOTE}
    assert [each.id for each in found] == [each.id for each in findings_of(f"{text}\n", "script/x.sh")]
    assert "line 2: " in found[0].message


@pytest.mark.parametrize("text", NOT_KEPT)
def test_a_line_that_does_not_reach_it_stays_an_error(text: str) -> None:
    found = list(findings_of(f"#!/bin/bash\n{text}\n", "script/x.sh", REACHED))
    assert found and Severity.ERROR in {each.severity for each in found}
    assert Severity.NOTE not in {each.severity for each in found}


def test_without_the_programs_only_plain_names_are_kept() -> None:
    functions = Reach(REACHED.functions)
    text = "ray stop\ntimeout 5 ray stop\n"
    assert [each.severity for each in findings_of(text, "script/x.sh", functions)] == [Severity.NOTE, Severity.ERROR]
