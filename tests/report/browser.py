"""Headless Chromium by its DevTools protocol over a pipe: two file descriptors, no port, no package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page. Everything that it asked of a network or complained about is in `events`."""

    def __init__(self, to_browser: IO[bytes], from_browser: IO[bytes]) -> None:
        self._out, self._in = to_browser, from_browser
        self._ids = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self(f"{domain}.enable")
        self("Page.setLifecycleEventsEnabled", enabled=True)

    def __call__(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._ids += 1
        message = {"id": self._ids, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._ids:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self._in.read(1)) != b"\0":
            assert byte, "chromium ended"
            text += byte
        document: dict[str, Any] = json.loads(text)
        return document

    def open(self, path: Path, width: int, height: int = 900, dark: bool = False, media: str = "screen") -> None:
        """Show a file in a window of that size, and wait until it has loaded."""
        self.visit(path.as_uri(), width, height, dark, media)

    def visit(self, url: str, width: int, height: int = 900, dark: bool = False, media: str = "screen") -> None:
        """The same with an address."""
        phone = width < 500
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.events.clear()
        # Named by its loader: the blank page of the start, or one that was left early, may only now say that it loaded.
        loaded = {"name": "load", "loaderId": self("Page.navigate", url=url)["loaderId"]}
        while not any(loaded.items() <= each.items() for each in self._lifecycle()):
            self.events.append(self._read())

    def _lifecycle(self) -> list[dict[str, Any]]:
        return [event["params"] for event in self.events if event.get("method") == "Page.lifecycleEvent"]

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path, whole: bool = True) -> None:
        data = self("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def requests(self) -> list[str]:
        """The addresses that the page asked for, apart from itself."""
        sent = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [each["request"]["url"] for each in sent if each["type"] != "Document"]

    def complaints(self) -> list[Any]:
        """Lines of the console: errors, warnings, and what the content security policy refused."""
        methods = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [event["params"] for event in self.events if event.get("method") in methods]


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a profile, a home and a folder for temporary files of its own; it ends with the block."""
    # A short path: Chromium puts a socket there, and the paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="rlx-web-", ignore_cleanup_errors=True) as folder, _started(folder) as page:
        yield page


@contextmanager
def _started(folder: str) -> Iterator[Browser]:
    assert CHROMIUM is not None
    to_browser, out = os.pipe()
    from_browser, answers = os.pipe()
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    arguments += ["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]

    def as_three_and_four() -> None:
        # Where Chromium looks for its pipe. Copies first: either number may be the other's source.
        source, sink = os.dup(to_browser), os.dup(answers)
        os.dup2(source, 3)
        os.dup2(sink, 4)

    process = subprocess.Popen(
        [CHROMIUM, *arguments, "--remote-debugging-pipe", f"--user-data-dir={folder}/profile"],
        env={**os.environ, "HOME": folder, "TMPDIR": folder},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(3, 4, to_browser, answers),
        preexec_fn=as_three_and_four,
        start_new_session=True,
    )
    os.close(to_browser)
    os.close(answers)
    try:
        with os.fdopen(out, "wb", 0) as commands, os.fdopen(from_browser, "rb") as replies:
            yield Browser(commands, replies)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
