"""A real, headless browser, driven by chromedriver's own protocol (W3C WebDriver), which needs no package."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.waiting import until

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
missing = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs chromium and chromedriver (.ci/packages)"
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_NONE = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens URLs without a proxy."""


class Browser:
    """One window of the browser."""

    def __init__(self, port: int, session: str) -> None:
        self._base = f"http://127.0.0.1:{port}/session/{session}"

    def open(self, url: str) -> None:
        _ask(f"{self._base}/url", {"url": url})

    def script(self, text: str, *arguments: object) -> Any:
        """Runs `text`, the body of a JavaScript function, and returns its result."""
        return _ask(f"{self._base}/execute/sync", {"script": text, "args": arguments})

    def text(self, selector: str) -> str:
        """Returns the text of the first element that matches; empty: there is none."""
        return str(self.script("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def wait(self, condition: str, what: str = "") -> Any:
        """Waits until this expression is true in the page, and returns its value."""
        return until(
            lambda: self.script(f"return {condition}"), what or condition, of=_Look(self, "document.body.innerText")
        )

    def keys(self, text: str) -> None:
        """Presses and releases each key, whatever has the focus."""
        pressed = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        _ask(f"{self._base}/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": pressed}]})

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Sets the page's size, in CSS pixels, and whether the operator prefers a dark scheme."""
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])

    def command(self, name: str, **parameters: object) -> Any:
        """Runs one of Chromium's own commands (the DevTools protocol)."""
        return _ask(f"{self._base}/goog/cdp/execute", {"cmd": name, "params": parameters})

    def errors(self) -> list[str]:
        """Returns the errors of the page's scripts since the last call, without those of the network."""
        log = _ask(f"{self._base}/se/log", {"type": "browser"})
        return [one["message"] for one in log if one["level"] == "SEVERE" and one["source"] != "network"]

    def picture(self) -> bytes:
        """Returns a screenshot as PNG."""
        return base64.b64decode(_ask(f"{self._base}/screenshot"))


class _Look:
    """An expression that is evaluated in the page only when a failed test shows it."""

    def __init__(self, browser: Browser, expression: str) -> None:
        self._browser, self._expression = browser, expression

    def __str__(self) -> str:
        return str(self._browser.script(f"return {self._expression}"))


@contextmanager
def browser() -> Iterator[Browser]:
    """Opens a window of a new profile, and removes both afterwards."""
    with tempfile.TemporaryDirectory(prefix="a3cd-browser-", ignore_cleanup_errors=True) as folder:
        yield from _browser(Path(folder))


def _browser(folder: Path) -> Iterator[Browser]:
    assert DRIVER is not None
    with (folder / "chromedriver.log").open("wb") as log:
        driver = subprocess.Popen([DRIVER, "--port=0"], stdout=log, stderr=log, start_new_session=True)
    try:
        port = until(lambda: _port(folder / "chromedriver.log"), "chromedriver's port")
        profile = folder / "profile"
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = _ask(f"http://127.0.0.1:{port}/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        try:
            yield Browser(port, session)
        finally:
            _ask(f"http://127.0.0.1:{port}/session/{session}", method="DELETE")
    finally:
        driver.send_signal(signal.SIGTERM)
        driver.wait(20)


def _port(log: Path) -> int | None:
    """Returns the port from the line: ChromeDriver was started successfully on port 12345."""
    _, said, words = log.read_text(errors="replace").rpartition("successfully on port ")
    port, dot, _ = words.partition(".")  # without the dot the line is not yet whole
    return int(port) if said and dot else None


def _ask(url: str, content: object = None, method: str = "") -> Any:
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    request.method = method or ("GET" if data is None else "POST")
    try:
        with _NONE.open(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read().decode(errors="replace")) from None


def paints(page: Browser) -> float:
    """Returns the milliseconds from the start of the navigation to the first contentful paint."""
    found = page.wait("performance.getEntriesByName('first-contentful-paint')[0]?.startTime", "a first paint")
    return float(found)
