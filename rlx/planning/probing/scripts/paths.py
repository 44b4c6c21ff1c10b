"""Print model and data as the run would find them: one JSON object per path.

Arguments: the folder that a run starts in, or nothing; ROLE PATH, in pairs.
"""

import ast
import json
import os
import re
import sys
from pathlib import Path


def model(path):
    weights = [file for pattern in ("*.safetensors", "*.bin") for file in path.glob(pattern)]
    return {
        "config": (path / "config.json").is_file(),
        "weight_files": len(weights),
        "bytes": sum(file.stat().st_size for file in weights),
    }


def hub(name):
    """Return what is known of a model of the Hugging Face hub: in the cache here, or on the hub. Downloads nothing."""
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    cache = Path(os.environ.get("HF_HUB_CACHE") or home + "/hub").expanduser() / ("models--" + name.replace("/", "--"))
    for snapshot in cache.glob("snapshots/*"):
        found = model(snapshot)
        if found["config"] and found["weight_files"]:
            return {"cached": True, **found}
    if any(os.environ.get(each, "").lower() in ("1", "true", "yes", "on") for each in OFFLINE):
        return {"cached": False, "problem": "the environment says offline"}
    return {"cached": False, "problem": unreached(name)}


def unreached(name):
    """Ask the hub for the headers of one small file. Return why it cannot be had, or nothing."""
    from urllib import error, request

    endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    place = endpoint.rpartition("@")[2]
    asked = request.Request(f"{endpoint}/{name}/resolve/main/config.json", method="HEAD")
    if os.environ.get("HF_TOKEN"):
        asked.add_header("Authorization", "Bearer " + os.environ["HF_TOKEN"])
    try:
        request.urlopen(asked, timeout=HUB_S).close()
    except error.HTTPError as problem:
        return {401: "no such model, or it wants a token", 403: "it wants a token", 404: "no such model"}.get(
            problem.code, f"{place} answers {problem.code}"
        )
    except (OSError, ValueError) as problem:
        return "{} cannot be reached: {}".format(place, getattr(problem, "reason", problem))
    return ""


def mcore(path):
    """Return whether there are Megatron's own weights, or a model that is not converted yet."""
    return {"tracker": (path / "latest_checkpointed_iteration.txt").is_file(), **model(path)}


def table(path):
    facts = {"bytes": path.stat().st_size}
    try:
        from pyarrow import parquet
    except ImportError:
        return {**facts, "unread": "there is no pyarrow"}
    try:
        file = parquet.ParquetFile(path)
        return {**facts, "rows": file.metadata.num_rows, "columns": file.schema_arrow.names}
    except Exception as problem:  # noqa: BLE001 - whatever the file is, the answer is that it cannot be read
        return {**facts, "unread": f"{type(problem).__name__}: {problem}"[:200]}


def reward(path):
    """Return what the functions of a file take, without running them."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as problem:
        return {"unread": f"{type(problem).__name__}: {problem}"[:200]}
    functions = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {"functions": {node.name: takes(node) for node in functions if not node.decorator_list}}


def takes(function):
    """Return the names of arguments, those without a default, and whether any other name is taken."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    wants = positional[: len(positional) - len(given.defaults)]
    wants += [name for name, default in zip(given.kwonlyargs, given.kw_defaults) if default is None]  # noqa: B905
    names = [argument.arg for argument in (*given.args, *given.kwonlyargs)]
    return {"names": names, "wants": [argument.arg for argument in wants], "any": given.kwarg is not None}


FOLDERS = {"model": model, "mcore": mcore}
OFFLINE, HUB_S = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"), 5
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def facts_of(role, text):
    path = Path(text).expanduser()
    kind = "folder" if path.is_dir() else "file" if path.is_file() else None
    facts = {"role": role, "path": text, "kind": kind}
    try:
        if role == "model" and kind is None and HUB_ID.fullmatch(text):
            facts["hub"] = hub(text)
        elif role in FOLDERS and kind == "folder":
            facts.update(FOLDERS[role](path))
        elif kind == "file" and role == "reward":
            facts.update(reward(path))
        elif kind == "file" and role != "packed":
            facts.update(table(path))
    except OSError as problem:
        facts["unread"] = str(problem)
    return facts


if sys.argv[1]:
    os.chdir(sys.argv[1])
for role, text in zip(sys.argv[2::2], sys.argv[3::2]):  # noqa: B905 - Python 3.8 has no strict
    print(json.dumps(facts_of(role, text)), flush=True)
