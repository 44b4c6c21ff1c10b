"""Measure how much of the validation stands in the training data: one JSON object for each pair of files.

Arguments: the folder that a run starts in, or nothing; modules of the payload as JSON, pairs of name and text in order
of import; seconds; the most rows that are read; TRAIN VALIDATION COLUMN, in triples.
"""

import json
import os
import signal
import sys
import types


class OutOfTime(Exception):
    pass


def stop(*_):
    raise OutOfTime


def measured(train, val, key):
    paths = [data_rows.expanded(path) for path in (train, val)]
    if not all(path.is_file() for path in paths):
        return {}
    rows = [rows_of(path) for path in paths]
    return {**data_overlap.overlap(key, *rows), "rows": len(rows[1])}


def rows_of(path):
    if path.suffix == ".parquet":
        from pyarrow import parquet

        if parquet.ParquetFile(path).metadata.num_rows > most_rows:
            raise ValueError(too_many)
    rows = []
    for row in data_rows.read(path):
        rows.append(row)
        if len(rows) > most_rows:
            raise ValueError(too_many)
    return rows


if sys.argv[1]:
    os.chdir(sys.argv[1])
for name, text in json.loads(sys.argv[2]):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, f"{name}.py", "exec"), module.__dict__)
data_rows, data_overlap = sys.modules["data_rows"], sys.modules["data_overlap"]
seconds, most_rows = int(sys.argv[3]), int(sys.argv[4])
too_many = f"a file has more than {most_rows:,} rows"
os.nice(10)
signal.signal(signal.SIGALRM, stop)
signal.alarm(seconds)
for train, val, key in zip(sys.argv[5::3], sys.argv[6::3], sys.argv[7::3]):  # noqa: B905 - Python 3.8 has no strict
    try:
        found = measured(train, val, key)
    except OutOfTime:
        found = {"unread": f"it took longer than {seconds} s"}
    except ImportError as problem:
        found = {"unread": f"there is no {problem.name}"}
    except Exception as problem:  # noqa: BLE001 - whatever the files are, the answer is that they cannot be read
        found = {"unread": f"{type(problem).__name__}: {problem}"[:200]}
    print(json.dumps({"train": train, "val": val, **found}), flush=True)
sys.stdout.flush()
os._exit(0)
