"""Read exported runs back, each with the reader of its tracker: {name: (tags, metric -> step -> value)}."""

from __future__ import annotations

import json
import os
import struct
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Read = dict[str, tuple[dict[str, str], dict[str, dict[int, float]]]]


def tensorboard(folder: Path, project: str) -> Read:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    found: Read = {}
    for place in (folder / project).iterdir():
        read = EventAccumulator(str(place), size_guidance={"tensors": 0, "scalars": 0}).Reload()
        texts = {tag for tag in read.Tags()["tensors"] if tag in read.PluginTagToContent("text")}
        arrays = {
            tag: {each.step: tensor_util.make_ndarray(each.tensor_proto) for each in read.Tensors(tag)}
            for tag in read.Tags()["tensors"]
        }
        tags = {tag.removeprefix("rlx/"): arrays[tag][0].item().decode() for tag in texts}
        series = {tag: {step: array.item() for step, array in arrays[tag].items()} for tag in arrays.keys() - texts}
        scalars = {tag: {each.step: each.value for each in read.Scalars(tag)} for tag in read.Tags()["scalars"]}
        found[place.name] = (tags, {**series, **scalars})
    return found


def wandb(folder: Path, project: str) -> Read:
    """By wandb's own messages; its package has no reader of the frame around them, which is LevelDB's log."""
    from wandb.proto.wandb_internal_pb2 import Record

    found: Read = {}
    for file in folder.glob("wandb/offline-run-*/run-*.wandb"):
        name, tags, series = "", dict[str, str](), defaultdict[str, dict[int, float]](dict)
        for data in _frames(file.read_bytes()):
            record = Record.FromString(data)
            if record.HasField("run"):
                assert record.run.project == project
                name, tags = record.run.display_name, dict(label.split(":", 1) for label in record.run.tags)
            items = record.history.item if record.HasField("history") else ()
            for item in items:
                key = item.key or "/".join(item.nested_key)
                if key[0] != "_":
                    series[key][record.history.step.num] = float(json.loads(item.value_json))
        found[name] = (tags, dict(series))
    return found


def _frames(data: bytes) -> Iterator[bytes]:
    at, whole, block = 7, b"", 32768
    while at + 7 <= len(data):
        if block - at % block < 7:
            at += block - at % block
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield whole
            whole = b""


def swanlab(folder: Path, project: str) -> Read:
    from swanlab.proto.swanlab.record.v1.record_pb2 import Record
    from swanlab.sdk.internal.core_python.store import DataStoreReader

    found: Read = {}
    for file in folder.glob("run-*/run-*.swanlab"):
        name, tags, series = "", dict[str, str](), defaultdict[str, dict[int, float]](dict)
        reader = DataStoreReader()
        reader.open(file)
        for data in reader:
            record = Record.FromString(data)
            if record.HasField("start"):
                assert record.start.project == project
                name, tags = record.start.name, dict(label.split(":", 1) for label in record.start.tags)
            elif record.HasField("scalar"):
                series[record.scalar.key][record.scalar.step] = record.scalar.value.number
        reader.close()
        found[name] = (tags, dict(series))
    return found


def mlflow(folder: Path, project: str) -> Read:
    from mlflow import MlflowClient

    warnings.simplefilter("ignore")  # SQLAlchemy's, about what MLflow does
    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    experiment = client.get_experiment_by_name(project)
    found: Read = {}
    for run in client.search_runs([experiment.experiment_id]):
        tags = {name.removeprefix("rlx."): value for name, value in run.data.tags.items() if name.startswith("rlx.")}
        series = {
            name.replace("_at_", "@"): {
                each.step: each.value for each in client.get_metric_history(run.info.run_id, name)
            }
            for name in run.data.metrics
        }
        found[run.info.run_name] = (tags, series)
    return found


def trackio(folder: Path, project: str) -> Read:
    os.environ["TRACKIO_DIR"] = str(folder)
    from trackio import Api
    from trackio.sqlite_storage import SQLiteStorage

    found: Read = {}
    for run in Api().runs(project):
        series = defaultdict[str, dict[int, float]](dict)
        for line in SQLiteStorage.get_logs(project, run.name):
            for name in line.keys() - {"step", "timestamp"}:
                series[name][line["step"]] = line[name]
        found[run.name] = (run.config["rlx"], dict(series))
    return found


READERS: dict[str, Callable[[Path, str], Read]] = {
    "tensorboard": tensorboard,
    "wandb": wandb,
    "swanlab": swanlab,
    "mlflow": mlflow,
    "trackio": trackio,
}


def installed(name: str) -> Any:
    from rlx.api.metrics import _is_installed
    from rlx.trackers import tracker_of

    return all(map(_is_installed, tracker_of(name).PACKAGES))
