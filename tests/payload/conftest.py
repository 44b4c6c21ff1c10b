"""The payload's modules import each other as top-level modules, as they do on the host."""

from __future__ import annotations

import sys

from rlx.resources import payload_folder

sys.path[:0] = [str(payload_folder(backend)) for backend in ("", "verl", "mindspeed_rl")]
