"""The recipes that come with rlx, and the ones that were given up: what their comments say is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rlx.backends.protocol import load_backend
from rlx.cli.text.memory_text import range_text
from rlx.model import Severity
from rlx.planning.memory import MemoryPhase, device_of, estimate, job_of
from rlx.planning.rules import check
from rlx.planning.rules.facts import facts_of
from rlx.recipe import bundled_recipes, load_recipe
from rlx.resources import recipes_folder
from tests.conftest import CASES

SHIPPED = {recipe.name: recipe for recipe in bundled_recipes()}
TINY = {name for name in SHIPPED if name.startswith("tiny-")}
OWN = {"starter", *TINY}  # rlx's own; the others are seeds' systems
STEPS = re.compile(r"(\d+) steps")


@pytest.mark.parametrize("name", sorted(SHIPPED.keys() - OWN))
def test_each_says_where_it_comes_from_and_has_no_warning(name: str) -> None:
    assert re.search(r"Source: (the guide in )?seed \d|Source: configs/\S+ of MindSpeed-RL", SHIPPED[name].description)
    file = load_recipe(SHIPPED[name].path)
    for arm in file.arms:
        resolved = file.resolve(arm)
        found = check(resolved)
        assert {finding.severity for finding in found} <= {Severity.NOTE}, found


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_the_last_step_is_a_validation_of_its_own(name: str) -> None:
    """So nobody has to rely on verl for it, which a fork or a filter may skip; and comments count steps rightly."""
    from rlx.hosts import site_of

    file = load_recipe(SHIPPED[name].path)
    resolved = file.resolve(file.control or file.arms[0])
    backend = resolved.recipe.backend.kind
    expected = load_backend(backend).plan(resolved, site_of("local")).expectations
    assert expected.total_steps is not None
    said = STEPS.search(SHIPPED[name].description)
    assert said is None or int(said[1]) == expected.total_steps
    # MindSpeed-RL has no validation.
    assert backend == "mindspeed-rl" or expected.validation_steps[-1] == expected.total_steps


def test_the_page_has_them_all_with_their_memory() -> None:
    """Of a GPU, 80 GiB are taken; of the fullest phase what the page says."""
    page = (Path(__file__).parents[2] / "docs/recipes.md").read_text(encoding="utf-8")
    for name in SHIPPED.keys() - TINY:
        row = next(line for line in page.splitlines() if line.startswith("|") and f"`{name}`" in line)
        file = load_recipe(SHIPPED[name].path)
        facts = facts_of(file.resolve(file.control or file.arms[0]))
        assert facts.architecture
        device = device_of(facts.recipe, None if facts.recipe.layout.device == "npu" else 80)
        assert device
        fullest = max(estimate(job_of(facts.recipe, facts.settings, facts.architecture, device)).phases, key=longest)
        assert range_text(fullest) in row, name


def longest(phase: MemoryPhase) -> float:
    return phase.longest


@pytest.mark.parametrize("base", sorted((recipes_folder() / "base").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_base_is_used_and_explained(base: Path) -> None:
    texts = [
        path.read_text(encoding="utf-8") for path in [*recipes_folder().glob("*.yaml"), *base.parent.glob("*.yaml")]
    ]
    assert any(re.search(rf"^extends: (base/)?{re.escape(base.name)}$", text, re.M) for text in texts)
    assert base.read_text(encoding="utf-8").startswith("# ")


def test_the_layouts_of_one_model_differ_in_nothing_that_changes_the_result() -> None:
    """Runs on 6 and on 8 NPUs take the same steps over the same batches."""
    names = [name for name in SHIPPED if name.startswith("qwen1.5-moe")]
    documents = [dict(load_recipe(SHIPPED[name].path).resolve("aqn").document) for name in names]
    assert len(documents) == 3
    shared = set.intersection(*(set(document["overrides"]) for document in documents))
    for document in documents:
        layout = document.pop("layout")
        samples = document["train"]["mini_batch_size"] * document["rollout"]["n"]
        groups = layout["devices_per_node"] // layout["tp"]
        assert samples % (groups * document["train"]["micro_batch_size"]) == 0
        # Where something lies in the meantime changes no result.
        assert all("offload" in key for key in document.pop("overrides").keys() - shared)
        document.pop("name")
    assert documents[0] == documents[1] == documents[2]


@pytest.mark.parametrize("case", sorted((CASES / "seeds").iterdir()), ids=lambda folder: folder.name)
def test_what_was_given_up_is_refused(case: Path) -> None:
    """As it was written down in the seeds, with the errors that it would have had."""
    file = load_recipe(case / "recipe.yaml")
    errors = {
        finding.id for arm in file.arms for finding in check(file.resolve(arm)) if finding.severity is Severity.ERROR
    }
    assert sorted(errors) == json.loads((case / "expected.json").read_text(encoding="utf-8"))["errors"]
