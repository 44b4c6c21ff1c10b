"""The program that a command comes to start, behind whatever stands around it."""

from __future__ import annotations

import pytest

from rlx.errors import UsageError
from rlx.shell_reader import read_script
from rlx.shell_reader.wrappers import programs

RUN = ("python", "-m", "x.y", "a=1")
UV = "uv run --frozen --with ray --with 'a[b]==1' --python python3.11 --extra=gpu"
# What stands around it -> the names of the wrappers.
AROUND = {
    f"{UV} python -m x.y a=1": ("uv run",),
    f"{UV} -m x.y a=1": ("uv run",),
    f'LAUNCH=({UV} python)\n"${{LAUNCH[@]}}" -m x.y a=1': ("uv run",),
    "srun -N 1 --nodes 2 --new-option value -w n1 --container-image=i.sqsh python -m x.y a=1": ("srun",),
    "srun --new-option value uv run -m x.y a=1": ("srun", "uv run"),
    "torchrun --nnodes 1 --nproc_per_node=8 --standalone -m x.y a=1": ("torchrun",),
    "python -u -m torch.distributed.run --nproc-per-node 8 -m x.y a=1": ("python -m torch.distributed.run",),
    "accelerate launch --config_file z.yaml --num_processes 7 -m x.y a=1": ("accelerate launch",),
    "conda run -n python --no-capture-output python -m x.y a=1": ("conda run",),
    "pixi run -e gpu python -m x.y a=1": ("pixi run",),
    "poetry run python -m x.y a=1": ("poetry run",),
    "singularity exec --nv -B /a:/b i.sif python -m x.y a=1": ("singularity exec",),
    "apptainer exec --bind /python i.sif bash -c 'cd /v && python -m x.y a=1'": ("apptainer exec",),
    "docker run --rm --gpus all -v /a:/b -e A=1 image python -m x.y a=1": ("docker run",),
    "docker exec -w /v name python -m x.y a=1": ("docker exec",),
    "nsys profile -o out -t cuda,nvtx --other value python -m x.y a=1": ("nsys profile",),
    "msprof --output=/o python -m x.y a=1": ("msprof",),
    "bsub -q q python -m x.y a=1": ("bsub",),
    "sudo -u me ray job submit --address python -- python -m x.y a=1": ("sudo", "ray job submit"),
    "ray job submit --working-dir . python -m x.y a=1": ("ray job submit",),
    "timeout -k 5 10 nice -n 5 env A=1 python -m x.y a=1": ("timeout", "nice", "env"),
    "$PREFIX python -m x.y a=1": ("${PREFIX}",),
    "bash -lc 'python -m x.y a=1'": (),
    "bash <<EOF\npython -m x.y a=1\nEOF": (),
    "A=1\nbash -s <<EOF\npython -m x.y a=$A\nEOF": (),
    "bash <<< 'python -m x.y a=1'": (),
    "ssh host <<'EOF'\nA=1\npython -m x.y a=$A\nEOF": ("ssh",),
    "sbatch -N 2 <<EOF\n#!/bin/bash\nsrun python -m x.y a=1\nEOF": ("sbatch", "srun"),
    "sbatch -N 2 --wrap 'cd /v && python -m x.y a=1'": ("sbatch",),
    "sbatch --wrap='python -m x.y a=1'": ("sbatch",),
    "cat > job.sh <<EOF\npython -m x.y a=1\nEOF\nbash job.sh": (),
    "export A=1\ncat <<'EOF' > /tmp/job.sh\npython -m x.y a=$A\nEOF\nchmod +x /tmp/job.sh\n/tmp/job.sh": (),
    "msprof --application='python -m x.y a=1' --output=/o": ("msprof",),
    "mpirun -np 8 --hostfile h python -m x.y a=1": ("mpirun",),
    "kubectl exec -it pod -- python -u -m x.y a=1": ("kubectl",),
    "docker compose run --rm trainer python -m x.y a=1": ("docker",),
    "tmux send-keys -t x 'python -m x.y a=1' C-m": ("tmux",),
    "su - me -c 'python -m x.y a=1'": ("su",),
    "sudo -E env A=1 python -m x.y a=1": ("sudo", "env"),
    "numactl --cpunodebind=0 --membind=0 python -m x.y a=1": ("numactl",),
    "test -e x || python -m x.y a=1": (),
    "build || python -m x.y a=1": (),
}


@pytest.mark.parametrize("text", AROUND)
def test_it_is_found_and_what_stands_around_it_is_named(text: str) -> None:
    found = list(programs(read_script(text, "run.sh"), "run.sh"))
    words = [tuple(word.text() for word in inner.command.words if word.text() != "-u") for inner in found]
    assert words[-1] == RUN
    assert found[-1].wrappers == AROUND[text]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("uv run train.py a", ["python", "train.py", "a"]),
        ("torchrun --nproc_per_node 8 train.py a", ["python", "train.py", "a"]),
        ("accelerate launch --new value train.py a", ["python", "train.py", "a"]),
        ("uv run pytest x.py", ["pytest", "x.py"]),
        ("srun hostname", ["hostname"]),
        ("ray job submit", ["ray", "job", "submit"]),
        ("nohup", ["nohup"]),
        ("git commit -m 'run python -m x.y'", ["git", "commit", "-m", "run python -m x.y"]),
        ("echo python -m x.y", ["echo", "python", "-m", "x.y"]),
        ("cat > notes <<EOF\npython -m x.y\nEOF", ["cat"]),
    ],
)
def test_a_file_of_python_and_other_programs(text: str, words: list[str]) -> None:
    (inner,) = programs(read_script(text, "run.sh"), "run.sh")
    assert [word.text() for word in inner.command.words] == words


def test_what_comes_only_if_a_program_fails_changes_nothing() -> None:
    text = "f() { ray status || { X=2; cd /x; f; exit 1; }; }\nX=1\nf\nrun $X"
    read = read_script(text, "run.sh")
    found = [([word.text() for word in each.words], each.workdir, each.is_certain) for each in read.commands]
    assert found == [
        (["ray", "status"], "", True),
        (["ray", "status"], "/x", False),
        (["run", "1"], "", True),
    ]


def test_scripts_inside_count_together() -> None:
    inner = "for j in {1..100}; do for k in {1..3}; do run $j $k; done; done"
    text = f"for i in {{1..100}}; do bash -c '{inner}' $i; done"
    with pytest.raises(UsageError, match="20,000"):
        list(programs(read_script(text, "run.sh"), "run.sh"))
