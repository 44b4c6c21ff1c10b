"""Digest the weights of a model, so that two runs can be told to have begun with the same ones.

    python provenance_weights.py PROVENANCE.json MODEL_FOLDER PID

`shape_of` takes milliseconds: headers, sizes and samples of the files. As a program it reads every byte, at the lowest
priority and beside the training, and adds the digest to the record of provenance.py. It gives up when the process PID,
which trains, has ended. What was read is remembered by inode in the user's cache folder. It runs with whatever Python
the host has (3.8 or later, nothing but the standard library).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

KINDS = (".safetensors", ".bin", ".pt", ".pth")
SAMPLES, SAMPLE_BYTES = 16, 64 * 1024
# A header lists the tensors; that of the largest public models has a few megabytes.
MOST_HEADER_BYTES = 64 * 1024**2
CHUNK = 4 * 1024**2
TEMPLATE_KEY = "chat_template"


class TrainingEndedError(Exception):
    """The digest is not needed any more."""


def folder_of(model: str) -> Path:
    """Return the folder of a model; of a name on the Hugging Face hub, the one in the cache that it stands for."""
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    cache = Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser() / f"models--{model.replace('/', '--')}"
    with suppress(OSError):
        if not Path(model).is_dir():
            return cache / "snapshots" / (cache / "refs/main").read_text(encoding="utf-8").strip()
    return Path(model)


def shape_of(folder: Path) -> dict[str, Any]:
    """Record a model's folder: number and bytes of its weight files, digests of what distinguishes models.

    `sha256_of_headers_and_samples` is over names, sizes, safetensors headers and 16 samples of 64 KiB of each file.
    `config` and `chat_template` are SHA-256 too; None where the model has none. Raises OSError where the folder cannot
    be read, and ValueError where it holds no weights.
    """
    files = weight_files(folder)
    hashed = hashlib.sha256()
    for file in files:
        hashed.update(json.dumps([file.name, file.stat().st_size]).encode())
        for part in edges(file):
            hashed.update(part)
    config = folder / "config.json"
    return {
        "path": str(folder),
        "files": len(files),
        "bytes": sum(file.stat().st_size for file in files),
        "sha256_of_headers_and_samples": hashed.hexdigest(),
        "config": hashlib.sha256(config.read_bytes()).hexdigest() if config.is_file() else None,
        "chat_template": template_digest(folder),
    }


def weight_files(folder: Path) -> list[Path]:
    """List the files of weights, of the first kind that exists: some folders hold them in two forms."""
    for kind in KINDS:
        found = sorted(path for path in folder.iterdir() if path.name.endswith(kind) and path.is_file())
        if found:
            return found
    raise ValueError(f"no weights ({', '.join(KINDS)}) in {folder}")


def edges(file: Path) -> list[bytes]:
    """Return the header of a safetensors file (of another one, its beginning), and samples spread over the file."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little") if file.name.endswith(".safetensors") else SAMPLE_BYTES
        parts = [stream.read(min(length, MOST_HEADER_BYTES))]
        for number in range(SAMPLES):
            stream.seek(max(0, size - SAMPLE_BYTES) * number // (SAMPLES - 1))
            parts.append(stream.read(SAMPLE_BYTES))
    return parts


def template_digest(folder: Path) -> str | None:
    """SHA-256 of the chat template: of its own file, else of the one in tokenizer_config.json."""
    own = folder / "chat_template.jinja"
    if own.is_file():
        return hashlib.sha256(own.read_bytes()).hexdigest()
    settings = folder / "tokenizer_config.json"
    template = json.loads(settings.read_bytes()).get(TEMPLATE_KEY) if settings.is_file() else None
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest() if template else None


def main(record: str, folder: str, pid: int) -> None:
    """Add `sha256`, over the names and whole contents of the weight files, to the record's `model`."""
    os.nice(19)
    contents = [(file.name, known_or_read(file, pid)) for file in weight_files(Path(folder))]
    path = Path(record)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["model"]["sha256"] = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
    write(path, json.dumps(document, indent=1, sort_keys=True))


def known_or_read(file: Path, pid: int) -> str:
    """Return the digest of a file: the cached one for this inode, size and times, else read now."""
    seen = file.stat()
    now = [seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns]
    cached = cache_folder() / f"{seen.st_dev}-{seen.st_ino}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(cached.read_text(encoding="utf-8"))
        if known["of"] == now:
            return str(known["sha256"])
    digest = read_whole(file, pid)
    with suppress(OSError):
        cached.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write(cached, json.dumps({"of": now, "sha256": digest}))
    return digest


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "rlx", "weights")


def read_whole(file: Path, pid: int) -> str:
    """SHA-256 of a file. Raises TrainingEndedError as soon as the process `pid` is gone."""
    hashed = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            if not Path("/proc", str(pid)).exists():
                raise TrainingEndedError
            hashed.update(chunk)
    return hashed.hexdigest()


def write(path: Path, text: str) -> None:
    """Whole or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(path)


def start(record: str, folder: str, pid: int) -> None:
    """Begin the digest in the background: it is in the process group of the training, and goes with it."""
    import subprocess

    null = subprocess.DEVNULL
    subprocess.Popen([sys.executable, __file__, record, folder, str(pid)], stdin=null, stdout=null, stderr=null)


if __name__ == "__main__":
    arguments: Sequence[str] = sys.argv[1:]
    with suppress(TrainingEndedError, OSError, ValueError, KeyError, TypeError):
        main(arguments[0], arguments[1], int(arguments[2]))
