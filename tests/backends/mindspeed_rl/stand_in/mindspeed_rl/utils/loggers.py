"""Lines as MindSpeed-RL writes them to the console."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime


class Loggers:
    def info(self, message: str | Mapping[str, float], iteration: int | None = None, steps: int | None = None) -> None:
        local, utc = datetime.now(), datetime.now(tz=UTC)
        if not isinstance(message, str):
            values = [f"{key} : {value:{'e' if 'lr' in key else '.4f'}}" for key, value in message.items()]
            message = " | ".join([f"iteration: {iteration} / {steps}", *values, ""])[:-2]
        stamp = f"{local:%Y-%m-%d %H:%M:%S},{local.microsecond // 1000:03d}"
        print(f"{stamp} - INFO - [{utc:%Y-%m-%d %H:%M:%S}] {message}", flush=True)
