"""A call in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Starts at once; nobody has to wait for it, not even the end of rlx."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        Thread(target=self._run, args=(call,), daemon=True).start()

    def _run(self, call: Callable[[], T]) -> None:
        try:
            self._future.set_result(call())
        except BaseException as problem:  # noqa: BLE001 - goes on in the thread that waits
            self._future.set_exception(problem)

    def result(self) -> T:
        """Return what the call returns. Raises what it raises."""
        return self._future.result()
