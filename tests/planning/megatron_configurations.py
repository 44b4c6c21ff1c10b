"""Build Megatron's configurations from the settings on stdin, and print what was refused.

Runs in a process of its own: megatron-core is found in the folder that is its argument, and nowhere else.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from typing import Any

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.path.insert(0, sys.argv[1])
    from megatron.core.transformer import TransformerConfig  # type: ignore[import-not-found]

    def refused(settings: dict[str, Any]) -> str:
        try:
            TransformerConfig(**settings)
        except (ValueError, TypeError, AssertionError) as problem:
            return f"{type(problem).__name__}: {problem}"
        return ""

    asked = json.load(sys.stdin)
    own = {field.name for field in dataclasses.fields(TransformerConfig)}
    words = [refused(settings) for settings in asked["configurations"]]
    print(json.dumps({"fields of the model": sorted(own & set(asked["fields"])), "refused": words}))
