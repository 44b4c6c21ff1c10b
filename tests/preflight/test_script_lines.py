"""Lines of a users' script that reach beyond its run, and honest ones that look alike."""

from __future__ import annotations

import pytest

from rlx.preflight.script_lines import findings_of

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
]


@pytest.mark.parametrize(("found", "text"), [(found, text) for found, texts in RUDE.items() for text in texts])
def test_it_is_shown_with_its_number(found: str, text: str) -> None:
    (finding,) = [each for each in findings_of(f"#!/bin/bash\nset -e\n{text}\n", "script/x.sh") if each.id == found]
    assert "line 3: " in finding.message
    assert finding.where == "script/x.sh"


@pytest.mark.parametrize("text", HONEST)
def test_a_line_that_looks_alike_is_left_in_peace(text: str) -> None:
    assert [each.message for each in findings_of(f"{text}\n", "script/x.sh")] == []


def test_only_some_of_many_lines_are_shown() -> None:
    (finding,) = findings_of("pkill python\n" * 30, "script/x.sh")
    assert "line 5: pkill python; and 25 more" in finding.message
