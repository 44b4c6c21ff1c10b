"""Every parser of rlx that reads what others wrote: where its inputs come from, and how it is called.

What it may raise is what its docstring says. All else is a finding of `benchmarks/fuzz.py`.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from rlx.errors import RlxError
from rlx.model import LOCAL, Place, RunState, Site

REPOSITORY = Path(__file__).parent.parent
CASES = REPOSITORY / "tests" / "cases"
MOST_SEEDS = 60
MOST_SEED_BYTES = 24_000
FAR = Place("far", "far")
MARK = "mark"
RUN = "main-1"


@dataclass(frozen=True, slots=True)
class Parser:
    """`modules` are counted in the coverage. `parse` gets the input and an empty folder of its own.

    `refusals` is what it may raise. `drawn` makes an input of a Hypothesis strategy instead of mangling a seed.
    """

    name: str
    modules: tuple[str, ...]
    seeds: Callable[[], list[bytes]]
    parse: Callable[[bytes, Path], object]
    refusals: tuple[type[Exception], ...] = (RlxError,)
    drawn: Callable[[random.Random], bytes] | None = None


def _files(*patterns: str, most: int = MOST_SEED_BYTES) -> list[bytes]:
    """Read the beginnings of files below tests/cases, whole lines of them; the same ones each time."""
    found = [path for pattern in patterns for path in sorted(REPOSITORY.glob(pattern)) if path.is_file()]
    step = max(1, len(found) // MOST_SEEDS)
    return [_begin(path.read_bytes(), most) for path in found[::step]]


def _begin(data: bytes, most: int) -> bytes:
    return data if len(data) <= most else data[: data.rfind(b"\n", 0, most) + 1] or data[:most]


# ---- recipes, files of hosts, plans ---------------------------------------------------------------------------------


def _among_others(data: bytes, folder: Path) -> Path:
    """Write a recipe where it finds those that it may extend."""
    (folder / "bases").symlink_to(CASES / "preflight" / "bases")
    (folder / "own").mkdir()
    for name in ("base", "aqn", "nla", "gsm8k", "tiny-cpu"):
        (folder / "own" / name).symlink_to(REPOSITORY / "recipes" / name)
    (folder / "own" / "base.yaml").write_text("version: 1\nname: base\nextends: recipe.yaml\n", encoding="utf-8")
    (folder / "own" / "recipe.yaml").write_bytes(data)
    return folder / "own" / "recipe.yaml"


def _recipe(data: bytes, folder: Path) -> None:
    from rlx.recipe import load_recipe

    file = load_recipe(_among_others(data, folder))
    for arm in file.arms[:3]:
        file.resolve(arm, seed=3)


def _rules(data: bytes, folder: Path) -> None:
    import rlx

    path = str(_among_others(data, folder))
    rlx.validate(path)
    rlx.plan(path).fatal()


@cache
def _odd_recipes() -> Callable[[random.Random], bytes]:
    from hypothesis import HealthCheck, given, settings

    from tests.planning.test_rules_on_odd_recipes import recipes

    drawn: list[object] = []

    @settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(recipes())
    def take(recipe: object) -> None:
        drawn.append(recipe)

    def one(rng: random.Random) -> bytes:
        drawn.clear()
        take.hypothesis.fuzz_one_input(rng.randbytes(3000))
        return json.dumps(drawn[0]).encode() if drawn else b"version: 1\n"

    return one


def _valid_recipes() -> list[bytes]:
    return _files("recipes/*.yaml", "tests/cases/preflight/*/recipe.yaml", "tests/cases/render*/*/recipe.yaml")


def _launch(data: bytes, folder: Path) -> object:
    from rlx.api.recipe_from import recipe_from

    (folder / "run.sh").write_bytes(data)
    return recipe_from(str(folder / "run.sh"))


def _lines(data: bytes, folder: Path) -> object:
    from rlx.api.scripts import read_script
    from rlx.planning.script_lines import findings_of

    (folder / "run.sh").write_bytes(data)
    return list(findings_of(read_script(folder / "run.sh", "name").text, "run.sh"))


def _hosts(data: bytes, folder: Path) -> None:
    from rlx.hosts.inventory.host_file import read_host_file

    (folder / "rlx.yaml").write_bytes(data)
    read_host_file(folder / "rlx.yaml")


def _plan_seeds() -> list[bytes]:
    import rlx
    from rlx.model import to_jsonable

    plans = [plan for name in ("tiny-cpu", "tiny-cpu-laboratory") for plan in rlx.plan(name).plans]
    written = [{"plans": [to_jsonable(plan)]} for plan in plans]
    for path in sorted((CASES / "before/0.1.0/plans").glob("*.json.gz")):
        written.append(json.loads(gzip.decompress(path.read_bytes())))
    for document in written:
        for plan in document["plans"]:
            plan["files"] = [{**file, "content": file["content"][:100]} for file in plan["files"]][:4]
    return [json.dumps(document).encode() for document in written]


def _plan(data: bytes, folder: Path) -> None:
    from rlx.api.launching import read_plans, recipe_of
    from rlx.runs import check_plan

    (folder / "plan.json").write_bytes(data)
    for plan in read_plans(str(folder / "plan.json")):
        check_plan(plan)
        recipe_of(plan, folder / "files")


def _manifest(data: bytes, folder: Path) -> None:
    from rlx.runs.manifest import parse_manifest

    if found := parse_manifest(data.decode("utf-8", "replace")):
        found.lacks  # noqa: B018 - it is computed


def _model(data: bytes, folder: Path) -> None:
    from rlx.planning.models.architecture_config import architecture_from_text
    from rlx.planning.models.architectures import count_parameters

    count_parameters(architecture_from_text(data.decode("utf-8", "replace"), "config.json"))


_MODELS = (
    {"model_type": "qwen2", "hidden_size": 896, "num_attention_heads": 14, "num_key_value_heads": 2}
    | {"num_hidden_layers": 24, "intermediate_size": 4864, "vocab_size": 151936, "tie_word_embeddings": True},
    {
        "model_type": "qwen3_moe",
        "hidden_size": 2048,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
    }
    | {"num_hidden_layers": 48, "intermediate_size": 6144, "vocab_size": 151936, "num_experts": 128}
    | {"num_experts_per_tok": 8, "moe_intermediate_size": 768, "mlp_only_layers": [], "decoder_sparse_step": 1},
    {"model_type": "deepseek_v3", "hidden_size": 7168, "num_attention_heads": 128, "num_hidden_layers": 61}
    | {"intermediate_size": 18432, "vocab_size": 129280, "n_routed_experts": 256, "num_experts_per_tok": 8}
    | {"moe_intermediate_size": 2048, "n_shared_experts": 1, "first_k_dense_replace": 3, "q_lora_rank": 1536}
    | {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "rope_scaling": {}},
)


# ---- answers of hosts -----------------------------------------------------------------------------------------------

_REPORTS = (
    b"marked \nrun main-1 attempt=1 holder=live supervisor=none leader=none ahead=2 \n"
    b"file /proc/self/ 0 1790000000\nfile main-1/manifest.json 5000 1789999990\n",
    b"marked RLX_RUN=main-1\0RLX_RUN=main-1\0\nrun main-1 attempt=2 holder=dead supervisor=live leader=live ahead=0 \n"
    b"run gone-1 attempt=1 holder=dead supervisor=dead leader=dead ahead=0 exit=143,leader,1789999000\n"
    b"run far-1 attempt=1 holder=unknown node=n3 supervisor=unknown leader=unknown ahead=0 \n"
    b"file /proc/self/ 0 1790000000\nfile main-1/manifest.json 5000 1789999000\nfile main-1/stop 20 1789999990\n"
    b"file main-1/attempts/2/log 100000 1789999998\nfile main-1/attempts/2/metrics.jsonl 900 1789999997\n"
    b"file main-1/attempts/2/state/started 40 1789999010\n",
    b"container " + b"a" * 64 + b" running\nin main-1 supervisor=live leader=dead members=3\nmarked RLX_RUN=other-1\0\n"
    b"run main-1 attempt=1 holder=live container=" + b"a" * 64 + b" ahead=0  foreign=0:77,1:78\n"
    b"file /proc/self/ 0 1790000000\nfile main-1/attempts/1/state/started 40 1789999010\n",
)
_LEASES = (
    b"now 1789999009\n"
    b"device npu.0 locked\nclaim npu.0 live ada 1789999000 - /home/ada/rlx/runs/main-1\ndevice npu.1 free\n"
    b"claim npu.1 dead ada 1789999000 - /home/ada/rlx/runs/old 1\n"
    b"ticket 1000000001 npu bob 1789999001 - /home/bob/r/x-1\n"
    b"foreign npu.1 4711\n",
    b"now 1789999009\n"
    b"device cpu.0 locked\nforeign cpu.0 12\ndevice cuda.3 locked\nclaim cuda.3 unknown eve 1789999000.5 abc /x\n",
)
_LISTINGS = (
    b"file 5000 manifest.json\nfile 120 attempts/1/log\ndenied 0 attempts/1/checkpoints\nfile 3 attempts/1/a b\xff\n",
    b"denied 0 attempts/2\nfile 999999999999999999 attempts/2/x\n",
)
_STREAM = (
    b"log 1 4711 0 0\ndata 12 12\nhello world\ndata 20 8\nab\ncd\nef\nend\n",
    b"log 1 4711 5 0\ndata 9 4\nab\nc" + b"log 2 4712 0 0\ndata 3 3\nxy\n" + b"gone\n",
)
_CONTAINERS = (
    b"id "
    + b"b" * 64
    + b"\nname /trainer\nimage sha256:1\nuser 0\ntool bash\ntool setsid\ntool grep\ntool od\ntool mktemp\n"
    b"tool stat\ntool tail\ntool flock\ntool tar\ntool gzip\nroot /data/rlx\ncontainer_root /mnt/rlx\n",
    b"id " + b"c" * 64 + b"\nname /t\nimage x\nuser 1000\nunusable /a\nstorage overlay\nwritable\n",
    b"error gone No such container: x\n",
    b"id " + b"d" * 64 + b"\nname /t\nimage x\nuser 0\nstorage tmpfs\nwritable\n",
    b"id "
    + b"e" * 64
    + b"\nname /t\nimage x\nuser 0\nstorage overlay\n"
    + b"".join(b"tool %s\n" % tool for tool in (b"bash", b"setsid", b"grep", b"od", b"mktemp", b"stat"))
    + b"writable\n"
    + b"".join(b"tool %s\n" % tool for tool in (b"tail", b"flock", b"tar", b"gzip")),
)


def _report(data: bytes, folder: Path) -> None:
    from rlx.hosts import Completed
    from rlx.runs.index.run_index import Index
    from rlx.runs.queries import QueryResult
    from rlx.runs.run import RunRef
    from rlx.runs.status.conclusion import observe
    from rlx.runs.status.host_report import read_report

    facts = read_report(LOCAL, "/r", Completed(0, data, b""), 0.0)
    refs = [RunRef(run_id, "l", "n", "a", 1, LOCAL, "/r", 0.0) for run_id in (*facts, "other")]
    observe(Index(folder), refs, QueryResult([facts], {}))


def _leases(data: bytes, folder: Path) -> None:
    from rlx.cli.text.queue_text import lease_lines
    from rlx.hosts.host_errors import reading_answer
    from rlx.runs.status.host_queue import parse_leases

    with reading_answer("far", "leases"):
        found = parse_leases(data.decode(errors="replace"))
    lease_lines(found)


def _listing(data: bytes, folder: Path) -> None:
    from rlx.runs.copies.pull import RequestedFile, _parse_list, batches
    from rlx.runs.run import RunRef

    ref = RunRef(RUN, "l", "n", "a", 1, FAR, "/r", 0.0)
    listed = list(_parse_list(ref, data.decode(errors="surrogateescape"), ["manifest.json", "attempts"]))
    list(batches([RequestedFile(file.path, file.bytes, 0) for file in listed]))


def _mirror_seeds() -> list[bytes]:
    run = sorted((CASES / "pairs/tiny-cpu").glob("*/manifest.json"))[0].parent
    plain = [
        _frames([("manifest.json", "whole"), ("attempts/1/metrics.jsonl", "whole"), ("attempts/1/log", "grown")], run),
        b"mark count 7 0 9 0 - - main-1/attempts/1/validation/5.jsonl\n20\n"
        b"mark denied - 0 0 9 - - main-1/a\nmark end\n",
    ]
    return [*plain, *(zlib.compress(answer, 1, wbits=31) for answer in plain)]


def _frames(files: Iterable[tuple[str, str]], run: Path) -> bytes:
    answer = b""
    for name, how in files:
        data = _begin((run / name).read_bytes(), 3000)
        answer += f"mark {how} 77 0 {len(data)} 0 1:2 3:4 {RUN}/{name}\n".encode() + data
    return answer + b"mark end\n"


def _mirror(data: bytes, folder: Path) -> None:
    from rlx.hosts import Completed
    from rlx.runs.copies.mirror import take
    from rlx.runs.copies.mirror_wire import MirrorRequest

    home = folder / "mirror"
    for _ in range(2):
        take(home, FAR, [RUN], MirrorRequest(MARK, None), Completed(0, data, b""), 1.0)
    outside = [path for path in folder.rglob("*") if path != home and not path.is_relative_to(home / RUN)]
    assert not outside, f"a host wrote outside of the copy of its run: {outside}"


def _stream(data: bytes, folder: Path) -> None:
    from rlx.hosts.host_errors import reading_answer
    from rlx.runs.logs import LogQuery, _Follower, _Pieces
    from rlx.runs.run import RunRef

    ref = RunRef(RUN, "l", "n", "a", 1, FAR, "/r", 0.0)
    chunks = iter([data[start : start + 777] for start in range(0, len(data), 777)])
    with reading_answer("far", "logs.sh"):
        for _ in _Follower(ref, LogQuery(), lambda text: None)._records(_Pieces(chunks)):
            pass


def _adopted(data: bytes, folder: Path) -> None:
    from rlx.hosts.host_errors import reading_answer
    from rlx.runs.importing.log_copy import parse_log_answer

    head, _, rest = data.partition(b"\n")
    with reading_answer("far", "a log"):
        parse_log_answer(head.decode(errors="replace").split(), rest, FAR, "/log").is_whole  # noqa: B018 - it is computed


def _adopted_seeds() -> list[bytes]:
    text = b"step:1 - actor/loss:0.5\n" * 20
    return [
        b"4711 0 480 123:45 480 1789999000 1790000000 1 plain\n" + text,
        b"4711 480 960 123:45 960 1789999000 1790000000 - gzip\n" + zlib.compress(text, wbits=31),
    ]


def _container(data: bytes, folder: Path) -> None:
    from rlx.hosts.containers.locate import read_container, settle

    site = Site(place=FAR, container="trainer", root="/data/rlx")
    settle(site, read_container(site, data.decode(errors="replace")))


def _installation(data: bytes, folder: Path) -> None:
    from rlx.hosts import Completed
    from rlx.hosts.installations import _keep, _parse, _unpack, _UnusableAnswer

    with suppress(_UnusableAnswer):
        _parse(Completed(0, data, b""))
    with suppress(_UnusableAnswer):
        _keep(_unpack(data), "0" * 64, folder / "kept")


def _installation_seeds() -> list[bytes]:
    answer = {"package": "/verl", "version": "0.9.1", "entrypoint": "/verl/main.py", "model": "{}", "files": 3}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as entries:
        for path in sorted((CASES / "forks/aqn/config").rglob("*.yaml"))[:4]:
            entries.add(path, path.name)
    return [b"hello\nrlx-tree\n" + json.dumps({**answer, "digest": "a" * 64}).encode(), archive.getvalue()]


@cache
def _config_files() -> tuple[tuple[str, bytes], ...]:
    root = CASES / "forks/aqn/config"
    return tuple((str(path.relative_to(root)), path.read_bytes()) for path in sorted(root.rglob("*.yaml")))


def _config(data: bytes, folder: Path) -> None:
    """Put the input in the place of the trainer's file, and of one that it includes."""
    from rlx.backends.verl.config_folder import read_config_folder

    for name, content in _config_files():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    target = "ppo_trainer.yaml" if b"defaults" in data else "actor/dp_actor.yaml"
    (folder / target).write_bytes(data)
    read_config_folder(folder, "ppo_trainer")


def _data_facts(data: bytes, folder: Path) -> None:
    """What a host says of data files goes through the same call as the answer of a real one."""
    from rlx.api.data import judge_answer
    from rlx.hosts.sent_python import answer_of

    judge_answer(_tiny_recipe(), answer_of(data, b"", 0, "far"), "far")


@cache
def _tiny_recipe() -> object:
    from rlx.recipe import load_recipe

    return load_recipe("tiny-cpu").resolve("baseline").recipe


_BAD = {"count": 0, "first": []}
_FILE = {"rows": 20, "broken": _BAD, "columns": ["prompt", "data_source"], "prompts": _BAD, "long": None}
_FILE |= {"sources": {"toy": 20}, "truths": {"count": 1, "first": [{"row": 3, "what": "no text"}]}, "reward": ""}
_LONG = {"count": 2, "first": [{"row": 1, "what": "900 tokens"}], "longest": 900}
_FACTS = (
    {"files": {"train": _FILE, "val": {**_FILE, "long": _LONG}}, "overlap": 2, "not_measured": ""},
    {"files": {"train": _FILE, "val": {"unreadable": "no such file"}}, "overlap": None, "not_measured": "no model"},
)
_PACKAGES = {"problem": "packages", "detail": "pyarrow, which python3 lacks"}


def _probe_seeds() -> list[bytes]:
    seeds = []
    for path in sorted((CASES / "probes").glob("*/*/input.txt")):
        text = _begin(path.read_bytes(), MOST_SEED_BYTES)
        name = path.parent.parent.name.encode()
        seeds.append(b"%s\nmark time 1790000000\n\nmark begin %s\n%s\nmark end %s 0\n" % (name, name, text, name))
    return seeds


def _probes(data: bytes, folder: Path) -> None:
    """The answer of a host that was asked all probes: parsed, judged, and written as `rlx doctor` does."""
    from rlx.cli.doctor import doctor_text
    from rlx.hosts.clock import compare_clocks
    from rlx.planning import host_query
    from rlx.planning.host_requirements import DataFile, HostRequirements
    from rlx.planning.probing import composite
    from rlx.planning.probing.probe import ProbeResults

    wanted = HostRequirements("verl", "0.7.1", device="npu", devices=8, files=(DataFile("train", "/t", 5, "prompt"),))
    site = Site(container="verl", root="/data/rlx", container_root="/data/rlx")
    text = data.decode(errors="replace")
    answers = composite.frames(text, MARK)
    host = composite.read_side(host_query.host_questions(site), answers)
    inside = composite.read_side(host_query.environment_questions(site, wanted), answers)
    clock = compare_clocks(composite.times(text, MARK), 0.0, 1.0)
    for where, within in ((replace(site, container=None), None), (site, inside)):
        results = ProbeResults(where, wanted, host, within, clock=clock)
        doctor_text(results, host_query.findings_of(results))


# ---- what runs leave ------------------------------------------------------------------------------------------------


def _events(data: bytes, folder: Path) -> None:
    from rlx.evidence.reading.process_records import read_records

    (folder / "a.jsonl").write_bytes(data)
    read_records(folder)


def _metrics(data: bytes, folder: Path) -> None:
    from rlx.evidence.reading.metrics_file import read_metrics

    (folder / "metrics.jsonl").write_bytes(data)
    table = read_metrics(folder / "metrics.jsonl").steps
    table.forms()
    dict(table)


def _items(data: bytes, folder: Path) -> None:
    from rlx.evidence import read_items
    from rlx.evidence.reading.validation_outputs import read_answers

    (folder / "5.jsonl").write_bytes(data)
    read_answers(folder)
    for metric in ("val-core/toy/acc/mean@1", "val-core/toy/reward/mean@2"):
        if found := read_items(folder, 5, metric):
            found.mean  # noqa: B018 - it is computed


def _log(data: bytes, folder: Path) -> None:
    from rlx.evidence import read_log
    from rlx.evidence.diagnosis import collapses
    from rlx.evidence.run_configuration import read_printed_config
    from rlx.runs.judging.configuration import read_composed

    (folder / "log").write_bytes(data)
    list(collapses(read_log(folder / "log", finished=True)))
    read_printed_config(folder / "log")
    composed = folder / "hydra" / ".hydra" / "config.yaml"
    composed.parent.mkdir(parents=True)
    composed.write_bytes(data)
    read_composed(folder)


def _diagnosis(data: bytes, folder: Path) -> None:
    """The excerpt of a log as diagnose.sh sends it, and what follows from it."""
    from rlx.evidence.diagnosis import diagnose, read_excerpt

    for state, code in ((None, None), (RunState.FAILED, 1)):
        diagnose(read_excerpt(iter(data.split(b"\n"))), state, code, findings=())


def _excerpts() -> list[bytes]:
    logs = _files("tests/cases/diagnosis/*/log", most=9000)
    return [b"size %d\n" % len(log) + b"\n".join(_recorded(log)) for log in logs]


def _recorded(log: bytes) -> Iterable[bytes]:
    for number, line in enumerate(log.splitlines(), 1):
        yield b"%d%c%s" % (number, b":-="[number % 3], line)


@cache
def _attempts() -> tuple[Path, ...]:
    return tuple(sorted(path.parent for path in (CASES / "logs").glob("*/expectations.json")))


_ATTEMPT_FILES = ("log", "metrics.jsonl", "events", "validation")


def _run_seeds() -> list[bytes]:
    """A file of a recorded run each, behind a line that says of which and which."""
    seeds = []
    for number, attempt in enumerate(_attempts()):
        for name in _ATTEMPT_FILES:
            found = sorted((attempt / name).glob("*")) if (attempt / name).is_dir() else [attempt / name]
            seeds += [
                b"%d %s\n" % (number, str(path.relative_to(attempt)).encode()) + _begin(path.read_bytes(), 40_000)
                for path in found[:1]
                if path.is_file()
            ]
    return seeds


def _run(data: bytes, folder: Path) -> None:
    """A recorded run of which one file is another one: read, and judged against what its recipe promised."""
    from rlx.evidence import judge, read_evidence
    from rlx.model import Expectations, salvage_jsonable

    head, _, content = data.partition(b"\n")
    number, _, name = head.decode(errors="replace").partition(" ")
    known = {f"{kind}{end}" for kind in ("log", "metrics.jsonl", "events/a", "validation/5") for end in ("", ".jsonl")}
    attempt = _attempts()[
        int(number) % len(_attempts()) if number.isascii() and number.isdigit() and len(number) < 4 else 0
    ]
    copy = folder / "1"
    shutil.copytree(attempt, copy)
    target = copy / (
        name if len(name) < 100 and (attempt / name).is_file() else "events/a.jsonl" if name not in known else name
    )
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(content)
    promised = json.loads((attempt / "expectations.json").read_text(encoding="utf-8"))
    expectations = salvage_jsonable(Expectations, promised, "expectations")[0]
    evidence = read_evidence([copy])
    for state in (RunState.FINISHED, RunState.RUNNING):
        judge(evidence, expectations, state, arm="aqn").sentence  # noqa: B018 - it is computed


def _noise_code(data: bytes, folder: Path) -> None:
    from rlx.audit.checkout import find_hook

    (folder / "noise.py").write_bytes(data)
    (folder / "requirements.txt").write_bytes(data[:2000])
    find_hook(folder)


def _noise_codes() -> list[bytes]:
    from tests.audit.checkouts import BY_CLASS, BY_TEXT, WITHOUT_SIGMA

    return [code.encode() for code in (BY_CLASS, BY_TEXT, WITHOUT_SIGMA)]


_EVENTS = ("tests/cases/logs/*/events/*.jsonl", "tests/cases/pairs/*/*/attempts/1/events/*.jsonl")
_METRICS = ("tests/cases/logs/*/metrics.jsonl", "tests/cases/six-runs/*/attempts/1/metrics.jsonl")
_LOGS = (
    "tests/cases/logs/*/log",
    "tests/cases/console/*/log",
    "tests/cases/diagnosis/*/log",
    "tests/cases/printed-config/log",
)
_OUTPUTS = (
    "tests/cases/pairs/*/*/attempts/1/validation/*.jsonl",
    "tests/cases/six-runs/*/attempts/1/validation/*.jsonl",
)
_MANIFESTS = ("tests/cases/pairs/*/*/manifest.json", "tests/cases/six-runs/*/manifest.json")
_CONFIGS = ("tests/cases/forks/*/config/ppo_*.yaml", "tests/cases/forks/*/config/actor/*.yaml")
_LAUNCHES = ("tests/cases/init-from/*/*.sh", "tests/cases/shell-reader/*.sh", "tests/cases/seed-commands/*/*.sh")
_INVENTORIES = ("tests/cases/hosts/*/hosts.yaml",)

_YAML = ("rlx/yaml_reader/",)
_RECIPE = tuple(
    f"rlx/recipe/{name}.py" for name in ("source", "yaml_tree", "inherit", "tree", "load", "arms", "wording")
)
_REPORT = ("rlx/runs/status/host_report.py", "rlx/runs/status/conclusion.py")
_STREAMED = ("rlx/runs/logs.py",)
_JSON = "rlx/model/jsonable.py"
_EVIDENCE = ("rlx/evidence/reading/", "rlx/evidence/metrics.py")

PARSERS = {
    parser.name: parser
    for parser in (
        Parser(
            "recipes",
            (*_YAML, *_RECIPE),
            lambda: _files("tests/cases/recipe/*/recipe.yaml", "recipes/*.yaml"),
            _recipe,
        ),
        Parser(
            "launches",
            ("rlx/shell_reader/", "rlx/api/recipe_from.py", "rlx/api/found_launch.py", "rlx/api/found_launch.py"),
            lambda: _files(*_LAUNCHES),
            _launch,
        ),
        Parser(
            "lines of scripts",
            ("rlx/shell_reader/", "rlx/planning/script_lines.py", "rlx/planning/ray_commands.py"),
            lambda: _files(*_LAUNCHES),
            _lines,
        ),
        Parser("rules of recipes", ("rlx/planning/rules/", "rlx/backends/verl/rules/"), _valid_recipes, _rules),
        Parser(
            "rules of odd recipes",
            ("rlx/planning/rules/", "rlx/backends/verl/rules/"),
            _valid_recipes,
            _rules,
            drawn=lambda rng: _odd_recipes()(rng),
        ),
        Parser("files of hosts", (*_YAML, "rlx/hosts/inventory/host_"), lambda: _files(*_INVENTORIES), _hosts),
        Parser("plans", ("rlx/api/launching.py", _JSON), _plan_seeds, _plan),
        Parser("manifests", ("rlx/runs/manifest.py", _JSON), lambda: _files(*_MANIFESTS), _manifest, ()),
        Parser(
            "model configs",
            ("rlx/planning/models/architecture_config.py",),
            lambda: [json.dumps(model).encode() for model in _MODELS],
            _model,
        ),
        Parser("reports", _REPORT, lambda: list(_REPORTS), _report),
        Parser("leases", ("rlx/runs/status/host_queue.py",), lambda: list(_LEASES), _leases),
        Parser("listings", ("rlx/runs/copies/pull.py",), lambda: list(_LISTINGS), _listing),
        Parser("frames of copies", ("rlx/runs/copies/mirror_",), _mirror_seeds, _mirror),
        Parser("frames of logs -f", _STREAMED, lambda: list(_STREAM), _stream),
        Parser("logs of others", ("rlx/runs/importing/log_copy.py",), _adopted_seeds, _adopted),
        Parser("containers", ("rlx/hosts/containers/locate.py",), lambda: list(_CONTAINERS), _container),
        Parser("installations", ("rlx/hosts/installations.py",), _installation_seeds, _installation),
        Parser(
            "configurations of verl",
            (*_YAML, "rlx/backends/verl/config_folder.py"),
            lambda: _files(*_CONFIGS),
            _config,
        ),
        Parser(
            "facts of data files",
            ("rlx/planning/data_files.py", "rlx/api/data.py"),
            lambda: [json.dumps(facts).encode() for facts in (*_FACTS, _PACKAGES)],
            _data_facts,
        ),
        Parser("probes", ("rlx/planning/probing/", "rlx/planning/checks/"), _probe_seeds, _probes, ()),
        Parser("events", ("rlx/evidence/reading/noise_records.py",), lambda: _files(*_EVENTS), _events, ()),
        Parser(
            "metrics",
            tuple(f"rlx/evidence/reading/{name}.py" for name in ("run_files", "timeline", "metric_table", "scan")),
            lambda: _files(*_METRICS),
            _metrics,
            (),
        ),
        Parser("outputs", ("rlx/evidence/reading/item_scores.py",), lambda: _files(*_OUTPUTS), _items, ()),
        Parser("logs", (*_EVIDENCE, "rlx/backends/verl/log/"), lambda: _files(*_LOGS), _log, ()),
        Parser("excerpts of logs", ("rlx/evidence/diagnosis/",), _excerpts, _diagnosis, ()),
        Parser("runs", (*_EVIDENCE, "rlx/evidence/charges/", "rlx/evidence/judge.py"), _run_seeds, _run, ()),
        Parser(
            "noise code",
            ("rlx/audit/checkout.py",),
            _noise_codes,
            _noise_code,
        ),
    )
}  # fmt: skip
