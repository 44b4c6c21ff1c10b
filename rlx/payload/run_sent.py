"""Runs modules that arrive on stdin, where nothing of rlx is installed and nothing is to be left.

    python run_sent.py <SENT        a JSON object: `modules`, pairs of name and text in order of import, and `order`

Prints what the last module's `main(order)` returns, as one JSON line; whatever else is printed goes to stderr.
"""

import contextlib
import json
import sys
import types

sent = json.load(sys.stdin)
with contextlib.redirect_stdout(sys.stderr):
    module = types.ModuleType("empty")
    for name, text in sent["modules"]:
        module = sys.modules[name] = types.ModuleType(name)
        exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    answer = module.main(sent["order"])
print(json.dumps(answer))
