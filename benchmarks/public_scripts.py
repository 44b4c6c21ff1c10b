"""Read the scripts of public repositories as `rlx init --from` does, and hold what was read against other witnesses.

python -m benchmarks.conformance --scripts FOLDER              print the table; exit 1 where a value is wrong
python -m benchmarks.conformance --scripts FOLDER --compose    also let Hydra compose script and recipe, and compare
python -m benchmarks.conformance --scripts FOLDER --write      put the table into docs/dev/conformance.md

FOLDER is yours: a clone or a mirror of each repository that is to be read, called OWNER+NAME, OWNER/NAME or NAME. Each
is read at the commit named here, by git, into a folder that goes when the reading is done.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from benchmarks.page_tables import row
from rlx.api.found_launch import FoundLaunch, launch_of
from rlx.api.imported_recipe import FOREIGN, ImportedRecipe, keys_part
from rlx.api.recipe_from import CONTROL, recipe_from
from rlx.errors import RlxError

RECORDED = Path(__file__).parent.parent / "tests/cases/conformance"


@dataclass(frozen=True)
class Source:
    """A repository at a commit, and which of its files people launch, by patterns of git."""

    repository: str
    commit: str
    patterns: tuple[str, ...]
    others: tuple[str, ...] = ()


_SHELL = (".sh", ".slurm", ".sbatch")
SOURCES = (
    Source("verl-project/verl", "1dda039b9c6311889a9c9a26040677e1254814f9", ("examples", "verl/trainer/config")),
    Source("verl-project/verl-recipe", "48ea0a797fa29867ea0ad92aff7d284eec7d4be3", (".",)),
    Source("THUDM/slime", "624b824a898ab0ec1fcb4d373004c7f3852bf515", ("examples", "scripts")),
    Source("vllm-project/vime", "", ("examples", "scripts")),
    Source("huggingface/open-r1", "1416fa0cf21595d2083b399a2a0bbddd7f6e9563", ("slurm", "scripts", "recipes")),
    Source("huggingface/trl", "f2cd57710ae345ea6428ae95363267fcf38a3dc8", ("examples", "docs/source")),
    Source("modelscope/ms-swift", "3602360a562313afbf2ef6065fdf61f271a2c5b9", ("examples",)),
)
# Files of other kinds that hold a launch, or the configuration of one.
_LAUNCHES_AS_YAML = re.compile(
    r"examples/(?:tutorial/)?skypilot/.*|recipes/.*/config_\w+|examples/cli_configs/.*|examples/yaml/.*"
)
# Parts of scripts: tables of a model's sizes, and what the others source.
_PARTS = re.compile(r"scripts/models/.*|.*/(?:_common|_lib)\.sh")
_BLOCK = re.compile(r"^```(?:bash|shell|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_STARTS_TRAINING = re.compile(
    r"\bmain_(?!eval|generation)\w+\b|\bsft_trainer\b|\b(?:swift|megatron) (?:sft|rlhf|pt)\b"
    r"|\btrain(?:_async)?\.py\b(?=[\s\S]*--(?:actor-num-nodes|rollout-num-gpus))"
    r"|\btrl (?:grpo|sft|dpo|rloo|kto|reward)\b|\bopen_r1/(?:grpo|sft)\.py"
)
_COMMENT = re.compile(r"^\s*#.*$|\s#\s.*$", re.MULTILINE)
_NAMED = re.compile(
    "which rlx has no recipes for|on given answers|trainer of its own|whose steps|no recipes for it|is a configuration"
    " of"
)
_NOTHING = re.compile(r"starts no training|is no program|trains nothing|without a command|is no configuration|is empty")
_ASKED = re.compile(r"starts from .* which is not here")


@dataclass
class Reading:
    """A script, and what became of it. `kind` is one of KINDS."""

    repository: str
    path: str
    kind: str
    reason: str = ""
    imported: ImportedRecipe | None = None
    launch: FoundLaunch | None = None
    checked: int = 0
    undecided: int = 0
    wrong: list[str] = field(default_factory=list)


KINDS = ("recipe", "trainer named", "file asked for", "no training", "not read")


def git_folder(folder: Path, repository: str) -> Path | None:
    """Find the repository's git directory below the folder that the person gave."""
    owner, _, name = repository.partition("/")
    for place in (folder / f"{owner}+{name}", folder / owner / name, folder / name):
        for found in (place / ".git", place / "repo", place):
            if (found / "objects").is_dir():
                return found
    return None


def readings(folder: Path) -> Iterator[Reading]:
    """Read all scripts of all sources that are there. What is not there is named on the way."""
    for source in SOURCES:
        place = git_folder(folder, source.repository)
        if place is None or not source.commit:
            print(f"{source.repository}: no mirror of it in {folder}, or no commit to read", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch, source.repository.rpartition("/")[2])
            _extract(place, source, root)
            for path in _scripts(root):
                yield _read(source, root, path)


def _extract(place: Path, source: Source, root: Path) -> None:
    command = ["git", "--git-dir", str(place), "archive", source.commit, *source.patterns]
    packed = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(root, filter="data")


def _scripts(root: Path) -> Iterator[Path]:
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        name = path.relative_to(root).as_posix()
        is_yaml = path.suffix in (".yaml", ".yml") and _LAUNCHES_AS_YAML.fullmatch(name.removesuffix(path.suffix))
        if (path.suffix in _SHELL and not _PARTS.fullmatch(name)) or is_yaml:
            yield path
        elif path.suffix == ".md":
            yield from _blocks(path)


def _blocks(page: Path) -> Iterator[Path]:
    """Write the commands of a page that start a training, each into a file beside it."""
    for number, block in enumerate(_BLOCK.findall(page.read_text(encoding="utf-8"))):
        if re.search(r"\btrl \w+ |\baccelerate launch\b", block):
            path = page.with_name(f"{page.stem}-{number}.sh")
            path.write_text(block, encoding="utf-8")
            yield path


def _read(source: Source, root: Path, path: Path) -> Reading:
    name = path.relative_to(root).as_posix()
    found = Reading(source.repository, name, "recipe")
    try:
        found.launch = launch_of(str(path))
        found.imported = recipe_from(str(path)).arms[CONTROL]
    except RlxError as refused:
        found.reason = refused.message.replace(f"{root}/", "").replace(str(path), name)
        found.kind = _kind(refused.message, path)
    else:
        _check_recorded(found, "#SBATCH" in path.read_text(encoding="utf-8"))
        _check_recipe(found)
    return found


def _kind(message: str, path: Path) -> str:
    if _NAMED.search(message):
        return "trainer named"
    if _ASKED.search(message):
        return "file asked for"
    text = _COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))
    is_true = _NOTHING.search(message) and not _STARTS_TRAINING.search(text)
    return "no training" if is_true else "not read"


def _check_recorded(found: Reading, is_batch: bool) -> None:
    """Hold the keys against those that bash itself gave to a Python that only wrote them down."""
    from rlx.yaml_reader.hydra import bare_key, read_word

    facts = _recorded().get((found.repository, found.path))
    # Under Slurm the job's own variables count, which the record has not.
    if facts is None or found.launch is None or is_batch:
        return
    recorded = {bare_key(pair[0]): pair[1] for word in facts["words"] if (pair := read_word(word))}
    read = {bare_key(key): value for key, value in found.launch.pairs}
    undecided = {bare_key(key) for key in found.launch.unknown}
    for key, value in recorded.items():
        if key in undecided or "/fill-in/" in str(value):
            found.undecided += 1
            continue
        found.checked += 1
        if key not in read or not _same(read[key], value):
            found.wrong.append(f"{key}: bash gives {value!r}, rlx reads {read.get(key)!r}")
    found.wrong += [f"{key}: bash does not set it" for key in read.keys() - recorded.keys() - undecided]


def compose_both(found: Reading) -> str:
    """Let Hydra compose the launch as it was read, and the recipe's, with the configuration of the recipe's version.

    Adds each key that the two compose otherwise, unless its reason is said, to what is wrong. Returns what Hydra
    refuses of the launch itself, which nothing can then be compared with.
    """
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from rlx.backends.shared.overrides import Override
    from rlx.backends.verl.checks import rendering_of
    from rlx.backends.verl.overrides import chosen
    from rlx.recipe import load_recipe
    from rlx.recipe.source import RecipeSource
    from rlx.yaml_reader.hydra import bare_key, leaves
    from tests.wheels import verl_folder

    assert found.imported is not None and found.launch is not None
    file = load_recipe(RecipeSource(found.path, Path.cwd(), found.imported.text))
    rendering = rendering_of(file.resolve(file.arms[0]))
    words = {bare_key(key): Override.read(key, value) for key, value in found.launch.pairs if key != "defaults"}
    fates = {bare_key(fate.key): fate for fate in found.imported.keys}
    kept = [words[key].argument() for key in words if key not in found.launch.unknown and fates[key].key[:1] != "~"]
    own = [override for override in chosen(rendering) if not override.key.startswith("hydra.")]
    name = rendering.config_name or (
        "ppo_megatron_trainer" if "megatron" in str(rendering.recipe.backend.engine) else ""
    )
    trees = []
    with initialize_config_dir(str(verl_folder(rendering.table.version) / "trainer/config"), version_base=None):
        for arguments in (kept, [override.argument() for override in own]):
            try:
                composed = compose(name or "ppo_trainer", [each for each in arguments if not each.startswith("hydra.")])
            except (HydraException, OmegaConfBaseException) as problem:
                return str(problem).splitlines()[0]
            trees.append(dict(leaves(OmegaConf.to_container(composed, resolve=False))))  # type: ignore[arg-type]
    theirs, ours = trees
    part = keys_part(found.launch.program)
    said = part.added(file.resolve(file.arms[0]), words)
    for key in theirs.keys() | ours.keys():
        if _same(theirs.get(key), ours.get(key)):
            continue
        asked = next((fate for part, fate in fates.items() if key == part or key.startswith(f"{part}.")), None)
        if asked is None and key not in said and key not in part.OWN and "${" not in str(theirs.get(key)):
            found.wrong.append(f"{key}: the launch composes {theirs.get(key)!r}, the recipe's {ours.get(key)!r}")
        elif asked is not None and asked.is_equal:
            found.wrong.append(f"{key}: said to be equal, and composed as {theirs.get(key)!r} and {ours.get(key)!r}")
    return ""


def _check_recipe(found: Reading) -> None:
    """Each key of the launch is in the recipe's, or the reason that it is not is said."""
    assert found.imported is not None
    said = {finding.message.partition(": ")[0] for finding in found.imported.findings}
    for fate in found.imported.keys:
        if not fate.is_equal and fate.reason != FOREIGN and fate.key not in said:
            found.wrong.append(f"{fate.key}: {fate.written!r} becomes {fate.rendered!r}, and nothing says so")


def _same(one: object, other: object) -> bool:
    from rlx.backends.shared.users_launches import same

    return same(_known_home(one), _known_home(other))


def _known_home(value: object) -> object:
    """Write the home folder in one form, and what else the record's environment had: nothing but its folder."""
    if isinstance(value, list):
        return [_known_home(each) for each in value]
    if not isinstance(value, str):
        return value
    value = re.sub(r"^~/", "${oc.env:HOME}/", value).replace("${oc.env:PWD}", "/workspace")
    return re.sub(r"\$\{oc\.env:(?!HOME\})\w+\}", "", value)


@cache
def _recorded() -> Mapping[tuple[str, str], dict[str, list[str]]]:
    found = {}
    for name in ("verl-main", "verl-recipe"):
        held = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
        found |= {(held["repository"], script): facts for script, facts in held["launches"].items()}
    return found


def table(found: Sequence[Reading]) -> str:
    """Count by repository what became of its scripts."""
    head = ("repository", "commit", "scripts", *KINDS, "values checked", "undecided", "wrong")
    rows = [row(*head), "|" + "---|" * len(head)]
    for source in SOURCES:
        mine = [each for each in found if each.repository == source.repository]
        if mine:
            kinds = Counter(each.kind for each in mine)
            sums = (sum(values) for values in zip(*map(_values, mine), strict=True))
            counts = (len(mine), *(kinds[kind] for kind in KINDS), *sums)
            rows.append(row(source.repository, source.commit[:8], *counts))
    return "\n".join(rows)


def _values(found: Reading) -> tuple[int, int, int]:
    return found.checked, found.undecided, len(found.wrong)


def reasons(found: Sequence[Reading]) -> str:
    """Count why scripts became no recipe, places and names left out."""
    head = ("why", "what became of it", "scripts")
    counted = Counter((_general(each.reason), each.kind) for each in found if each.reason)
    rows = [row(reason, kind, number) for (reason, kind), number in counted.most_common()]
    return "\n".join([row(*head), "|" + "---|" * len(head), *rows])


def _general(reason: str) -> str:
    return re.sub(r"^(?:--from )?\S+?(?:, line \d+)?: (?:\S+: (?=is |starts |trains ))?", "", reason)
