"""The commands of the first users through `rlx init --from`, field by field beside the recipe that rlx ships for them.

python -m benchmarks.seed_commands            print the part of the page; exit 1 for a difference without its reason
python -m benchmarks.seed_commands --write    put it into docs/dev/seed-commands.md
python -m benchmarks.seed_commands --check    exit 1 where that page has another one
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.page_tables import out_of_date, row
from rlx.api.recipe_from import CONTROL, recipe_from
from rlx.errors import UsageError
from rlx.recipe import load_recipe
from rlx.recipe.schema import Recipe
from rlx.recipe.source import RecipeSource

REPOSITORY = Path(__file__).parent.parent
COMMANDS = REPOSITORY / "tests/cases/seed-commands"
PAGE = "dev/seed-commands"

_DEFAULT = "the command leaves it to the back-end, whose default this is; the recipe says it"
_PLACE = "where these files lie on a host"
# Seed -> the recipe that rlx ships for it, and why a field differs.
RECIPES = {"001": "qwen3-30b-a3b-gsm8k-lora-mindspeed-npu12", "003": "qwen2.5-1.5b-gsm8k-npu"}
REASONS: Mapping[str, Mapping[str, str]] = {
    "001": {
        "algorithm.kl.coef": "the seed does not show the coefficient; the recipe has that of MindSpeed-RL's samples",
        "data.max_response_tokens": "the seed does not show it, and the default is 128; prompt and answer fill its "
        "sequence of 2048",
        "data.train": f"{_PLACE}; MindSpeed-RL wants the prefix of packed files, not a folder of parquet",
        "data.train_rows": "the number of rows of GSM8K: an expectation that the log is checked against",
        "data.val": "nothing reads it",
        "env.HCCL_IF_BASE_PORT": "one number for all runs of a host would make two of them meet",
        "env.HYDRA_FULL_ERROR": "rlx exports it for MindSpeed-RL",
        "env.LD_PRELOAD": "a file of the image: it goes into the host's entry",
        "env.MALLOC_MMAP_THRESHOLD_": "rlx exports it for MindSpeed-RL",
        "env.TASK_QUEUE_ENABLE": "rlx exports it for MindSpeed-RL",
        "layout.ep": "experts with adapters on attention only need no split",
        "layout.pp": "12 NPUs are TP 4 × PP 3: 16 layers a stage",
        "layout.tp": "TP 3 divides neither 32 heads nor 4 key-value heads (`tests/cases/seeds/001-tp-three`)",
        "model.lora.targets": "the experts of a grouped product are no linear_fc1 and linear_fc2",
        "model.path": _PLACE,
        "overrides.actor_config.load": "MindSpeed-RL starts from Megatron's weights, of which the seed shows none",
        "overrides.megatron_training.seq_length": "the recipe renders the same from its two lengths",
        "rollout.ep": "three engines of TP 4 need no split of the experts",
        "rollout.temperature": f"{_DEFAULT}: nearly greedy, of which GRPO learns little",
        "rollout.top_k": f"{_DEFAULT}: all tokens, as in MindSpeed-RL's own samples",
        "rollout.tp": "TP 6 divides the heads as little as TP 3",
        "seed": "MindSpeed-RL's default; seeds of an experiment count from 1",
        "train.epochs": "the seed does not show the length: twice the data",
        "train.lr": "the seed does not show it; adapters want more than whole weights",
        "train.save_every": "the seed does not show it",
    },
    "003": {
        **dict.fromkeys(
            ("aqn.provider", "aqn.sigma_end", "aqn.sigma_start", "aqn.stages"),
            "the recipe is the control; the noise is the arm `qerl` of `qwen2.5-1.5b-gsm8k-aqn-npu`",
        ),
        "backend.version": "the newest that knows the most of the command's keys; what the seed describes is 0.7",
        "data.train": _PLACE,
        "data.train_rows": "the number of rows of GSM8K: an expectation that the log is checked against",
        "data.val": _PLACE,
        "data.val_rows": "the number of rows of GSM8K: an expectation that the log is checked against",
        "env.RAY_DEDUP_LOGS": "rlx reads what verl writes into files, whatever Ray leaves out of the console",
        "env.WANDB_MODE": "the recipe has no wandb: rlx reads console and file",
        "model.arch": "for the estimate of memory without a look at the host",
        "model.path": _PLACE,
        "overrides.custom_reward_function.name": "verl's own reward of GSM8K is named by the rows",
        "overrides.custom_reward_function.path": "that function does not take verl's arguments (RLX142): the rows name "
        "verl's own reward",
        "overrides.trainer.critic_warmup": "verl's default",
        "overrides.trainer.project_name": "rlx names runs by recipe, arm and seed",
        "reward": "both mean the reward that the rows name",
        "rollout.log_prob_micro_batch_size": "the guide's table has 2 as the cautious setting and 8 as the faster one",
        "train.micro_batch_size": "the guide's table has 2 as the cautious setting and 8 as the faster one",
    },
}
_BESIDE = """\
**Seed {seed}** beside `{recipe}`: {all} keys and variables, {equal} of them equal in what the
imported recipe renders. What that recipe has otherwise than the shipped one:"""
# What the seeds show of a command that cannot be read whole.
OTHERS = {
    "000": "starts from a configuration of which the seed shows some keys only, under shortened names",
    "002": "shows no command: two lists of parameters and what came out. `qwen2.5-1.5b-gsm8k-aqn-npu` was made of it",
    "004": "starts a fork's own program with files of the fork",
}


def main(arguments: Sequence[str]) -> int:
    if not {"--write", "--check"} & {*arguments}:
        print(page_part())
        return 0
    stale = out_of_date(PAGE, lambda _: {"seed commands": page_part()}, write="--write" in arguments)
    return int(bool(stale))


def page_part() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for seed in sorted({*RECIPES, *OTHERS}):
        yield ""
        yield from _read(seed) if seed in RECIPES else _unread(seed)


def _read(seed: str) -> Iterator[str]:
    made = recipe_from(str(COMMANDS / seed / "command.sh"))
    fates = (*made.arms[CONTROL].keys, *made.arms[CONTROL].environment)
    counted = {"all": len(fates), "equal": sum(fate.is_equal for fate in fates)}
    yield _BESIDE.format(seed=seed, recipe=RECIPES[seed], **counted)
    yield ""
    yield row("field", "the seed's command", "the shipped recipe", "why")
    yield "|---|---|---|---|"
    for path, (one, other) in differences(seed).items():
        yield row(f"`{path}`", _shown(one), _shown(other), REASONS[seed][path])


def _unread(seed: str) -> Iterator[str]:
    yield f"**Seed {seed}** {OTHERS[seed]}."
    script = COMMANDS / seed / "command.sh"
    if script.exists():
        try:
            said = json.dumps(recipe_from(str(script)).arms[CONTROL].document["backend"])
        except UsageError as refused:
            said = refused.message
        yield f"`rlx init --from` says so of it: `{said}`."


def differences(seed: str) -> dict[str, tuple[Any, Any]]:
    """Dotted path -> value by the seed's command, and in the recipe that is shipped; only where they differ."""
    made = recipe_from(str(COMMANDS / seed / "command.sh"))
    one = dict(_leaves(_complete(load_recipe(RecipeSource("seed", REPOSITORY, made.text)).resolve("main").document)))
    file = load_recipe(RECIPES[seed])
    other = dict(_leaves(_complete(file.resolve(file.arms[0]).document)))
    paths = sorted({*one, *other} - {"name"})
    return {path: (one.get(path), other.get(path)) for path in paths if one.get(path) != other.get(path)}


def _complete(document: Mapping[str, Any]) -> dict[str, Any]:
    return Recipe.model_validate(document).model_dump(mode="json", exclude_defaults=True)


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value and not prefix.startswith("overrides"):
            yield from _leaves(value, f"{prefix}{key}.")
        elif value != {}:
            yield f"{prefix}{key}", value


def _shown(value: Any) -> str:
    return "-" if value is None else f"`{value if isinstance(value, str) else json.dumps(value)}`"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
