"""Runs modules that arrive on stdin, where nothing of rlx is installed and nothing is to be left.

    python run_sent.py <SENT        a JSON object: `modules`, pairs of name and text in order of import, and `order`

Prints what the last module's `main(order)` returns, as one JSON line; whatever else is printed goes to stderr.
Ends without taking the interpreter down: pyarrow's threads abort that now and then, and the answer with it.
"""

import contextlib
import json
import os
import sys
import types

sent = json.load(sys.stdin)
with contextlib.redirect_stdout(sys.stderr):
    module = types.ModuleType("empty")
    for name, text in sent["modules"]:
        module = sys.modules[name] = types.ModuleType(name)
        exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    answer = module.main(sent["order"])
print(json.dumps(answer), flush=True)
sys.stderr.flush()
os._exit(0)
