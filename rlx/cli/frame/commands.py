"""The commands of `rlx`: their groups, aliases and examples, and what is suggested for a mistyped one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

GROUPS = {
    "Common": (
        "init",
        "validate",
        "plan",
        "launch",
        "run",
        "status",
        "logs",
        "diagnose",
        "wait",
        "stop",
        "compare",
        "report",
        "hosts",
        "doctor",
        "explain",
    ),
    "More about recipes": ("recipes", "show", "power", "layouts", "rehearse", "migrate", "schema"),
    "More about runs": (
        "queue",
        "watch",
        "attach",
        "metrics",
        "retry",
        "tag",
        "waive",
        "pull",
        "track",
        "import",
        "rm",
        "prune",
    ),
    "More about results": ("experiments", "export", "verify", "demo"),
    "Data and settings": ("data", "config", "aqn"),
}
"""What is used daily, in the order of a typical workflow, then the others by subject."""

COMMANDS = tuple(name for names in GROUPS.values() for name in names)

ALIASES = {
    "": {
        "ps": "status",
        "ls": "status",
        "list": "status",
        "top": "status --watch",
        "kill": "stop",
        "cancel": "stop",
        "ssh": "attach",
        "exec": "attach",
        "adopt": "track",
        "judge": "verify",
        "version": "--version",
        "help": "--help",
    },
    "hosts": {"ls": "list", "rm": "remove"},
}
"""Names of commands in other tools and earlier versions, by group; only the help of a command shows them.

`help COMMAND` becomes `COMMAND --help`.
"""

_ACTING = frozenset({"stop", "retry", "rm", "prune", "remove", "waive", "trust", "kill", "cancel"})
"""Never suggested for a mistyped command: a suggestion is often executed without being read."""
_OTHER_TOOLS = frozenset({"abort", "clean", "delete", "destroy", "end", "purge", "restart", "terminate"})
"""Names of such commands in other tools: nothing with a similar spelling is meant."""


def expanded(words: Sequence[str], group: str = "") -> list[str]:
    """Return the words of a command line, or of a group of commands, with an alias replaced by what it stands for."""
    start = next((place for place, word in enumerate(words) if word not in ("-q", "--quiet")), len(words))
    before, typed, after = words[:start], words[start : start + 1], words[start + 1 :]
    if not typed or typed[0] not in ALIASES.get(group, {}):
        return [*words]
    meant = ALIASES[group][typed[0]].split()
    return [*before, *after, *meant] if meant == ["--help"] else [*before, *meant, *after]


def aliases_of(command: str) -> list[str]:
    """Return the other names of a command, which is named by its words, such as `hosts list`; with their options."""
    *groups, name = command.split()
    found = [(alias, meant.split()) for alias, meant in ALIASES.get(" ".join(groups), {}).items()]
    return [f"{alias} ({' '.join(meant)})" if meant[1:] else alias for alias, meant in found if meant[0] == name]


def suggested(typed: str, names: Iterable[str], group: str = "") -> list[str]:
    """Return what an unknown command may mean, nearest first; nothing if the nearest one changes or ends something."""
    near = get_close_matches(typed, sorted({*names, *ALIASES.get(group, {}), *_ACTING, *_OTHER_TOOLS}))
    acting = _ACTING | _OTHER_TOOLS
    return [] if near and near[0] in acting else [name for name in near if name not in acting]


EXAMPLES = {
    "init": ("rlx init --from tiny-cpu my-first.yaml", "rlx init --from run_grpo.sh grpo.yaml"),
    "recipes": ("rlx recipes", "rlx recipes --json"),
    "show": ("rlx show recipe.yaml --arm aqn", "rlx show tiny-cpu --set train.lr=1e-6"),
    "validate": ("rlx validate recipe.yaml", "rlx validate recipes/*.yaml --strict"),
    "plan": ("rlx plan recipe.yaml --host a3", "rlx plan recipe.yaml --arm aqn --seed 1,2,3"),
    "power": ("rlx power recipe.yaml", "rlx power recipe.yaml --seeds 3,5 --effect 2 --spread 1"),
    "layouts": ("rlx layouts recipe.yaml", "rlx layouts recipe.yaml --devices 16 --memory 64"),
    "rehearse": ("rlx rehearse recipe.yaml", "rlx rehearse recipe.yaml --arm aqn"),
    "migrate": ("rlx migrate recipe.yaml --engine megatron", "rlx migrate recipe.yaml --engine megatron --tp 2"),
    "schema": ("rlx schema > recipe.schema.json", "rlx schema | jq .properties"),
    "launch": ("rlx launch recipe.yaml --host a3", "rlx launch --script run_grpo.sh --name gsm8k --host a3"),
    "run": (
        "rlx run train.sh --host a3 --env LR=1e-6 -- --epochs 2",
        "rlx run --arm base --arm hot:LR=4e-4 --seed 1,2,3 -- python train.py",
    ),
    "status": ("rlx status", "rlx status -w"),
    "queue": ("rlx queue", "rlx queue --host a3,a4 --json"),
    "logs": ("rlx logs --grep val-core", "rlx logs aqn -f"),
    "metrics": ("rlx metrics aqn", "rlx metrics baseline,aqn '*entropy' --plot -"),
    "tag": ("rlx tag aqn keep paper", 'rlx tag baseline,aqn --note "before the new data"'),
    "waive": (
        'rlx waive aqn RLX705 --because "the filter drops three rows"',
        "rlx waive aqn RLX705 --undo",
    ),
    "watch": ("rlx watch", "rlx watch baseline aqn"),
    "diagnose": ("rlx diagnose aqn", "rlx diagnose console.log --md"),
    "attach": ("rlx attach aqn", "rlx attach aqn --write"),
    "wait": ("rlx wait", "rlx wait aqn --timeout 2h"),
    "stop": ("rlx stop aqn", "rlx stop --all"),
    "retry": ("rlx retry aqn", "rlx retry aqn --from-checkpoint --follow"),
    "rm": ("rlx rm aqn --reason 'wrong rate'", "rlx rm --undo 20261124-1200-a1b2c3"),
    "prune": ("rlx prune --older-than 30d --dry-run", "rlx prune --what checkpoints --keep 1 --host a3"),
    "pull": ("rlx pull aqn --to results", "rlx pull baseline aqn --checkpoints"),
    "track": ("rlx track a3:/tmp/run.log --name e5", "rlx track a3:trainer:/tmp/run.log --name e5 --arm aqn"),
    "import": ("rlx import run.log --name e5", "rlx import aqn.log.gz --name e5 --arm aqn"),
    "compare": ("rlx compare baseline aqn", "rlx compare baseline aqn --html report.html"),
    "experiments": ("rlx experiments", "rlx experiments gsm8k-aqn --json"),
    "report": ("rlx report", "rlx report baseline aqn --bundle evidence.tar.gz"),
    "export": ("rlx export --to tensorboard", "rlx export baseline aqn --to wandb --project gsm8k"),
    "verify": ("rlx verify evidence.tar.gz", "rlx verify evidence.tar.gz --json"),
    "explain": ("rlx explain RLX601", "rlx explain invalid"),
    "demo": ("rlx demo", "rlx demo --to /tmp/rlx-demo"),
    "doctor": ("rlx doctor a3", "rlx doctor a3 --container trainer --recipe recipe.yaml"),
    "data tiny-cpu": ("rlx data tiny-cpu", "rlx data tiny-cpu --host a3"),
    "data gsm8k": (
        "rlx data gsm8k downloads/gsm8k --to data/gsm8k",
        "rlx data gsm8k /data/gsm8k --to /data/converted --host a3",
    ),
    "data check": ("rlx data check recipe.yaml", "rlx data check recipe.yaml --host a3"),
    "hosts list": ("rlx hosts", "rlx hosts list --json"),
    "hosts show": ("rlx hosts show a3", "rlx hosts show a3 --json"),
    "hosts add": ("rlx hosts add a3 me@a3", "rlx hosts add a3 me@a3 --container trainer"),
    "hosts start": ("rlx hosts start a3", "rlx hosts start a3 --image trainer:8.5"),
    "hosts remove": ("rlx hosts remove a3", "rlx hosts remove a3 --project"),
    "hosts reindex": ("rlx hosts reindex", "rlx hosts reindex --json"),
    "hosts trust": ("rlx hosts trust", "rlx hosts trust -y"),
    "config list": ("rlx config", "rlx config list --json"),
    "config get": ("rlx config get host", "rlx config get root --json"),
    "config set": ("rlx config set host a3", "rlx config set root /data/me/rlx"),
    "config unset": ("rlx config unset host", "rlx config unset container"),
    "aqn schedule": ("rlx aqn schedule recipe.yaml", "rlx aqn schedule recipe.yaml --arm aqn"),
    "aqn audit": ("rlx aqn audit ../QeRL", "rlx aqn audit ../QeRL -y"),
}
