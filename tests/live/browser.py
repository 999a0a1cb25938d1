"""Chromium without a window, steered by its own protocol (CDP)."""

import base64
import itertools
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from websockets.sync.client import ClientConnection, connect

from tests.prerequisites import missing
from tests.processes import HANG_S, http, wait_for

POLL_S = 0.05
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0")
PIXELS = """(canvas) => {
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let found = '';
    for (let at = 0; at < data.length; at += 4) found += String.fromCharCode(data[at], data[at + 1], data[at + 2]);
    return [canvas.width, canvas.height, btoa(found)];
}"""
DRAWN = """new Promise((done) => {
    const image = new Image(), canvas = document.createElement('canvas');
    image.onload = () => {
        canvas.width = image.width; canvas.height = image.height;
        canvas.getContext('2d').drawImage(image, 0, 0);
        done(canvas);
    };
    image.src = 'data:image/png;base64,IMAGE';
})"""


class Screen(NamedTuple):
    """The visible screen: three bytes for each pixel, row by row."""

    width: int
    height: int
    rgb: bytes


class Browser:
    """One tab."""

    def __init__(self, tab: ClientConnection) -> None:
        self._tab = tab
        self._numbers = itertools.count(1)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression, which may be a promise."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        """Make the tab so many pixels wide and high."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def state(self) -> str:
        """Return the state of the page with a console; "": none yet."""
        return str(self.evaluate("document.body?.dataset.state ?? ''"))

    def wait_for_state(self, wanted: str) -> None:
        deadline = time.monotonic() + HANG_S
        while (found := self.state()) != wanted:
            assert time.monotonic() < deadline, f"{found}: {self.evaluate('document.body.innerText')}"
            time.sleep(POLL_S)

    def wait_for_text(self, selector: str, wanted: str) -> None:
        """Wait until an element contains a text; lines of terminals have no-break spaces."""
        script = f"document.querySelector({json.dumps(selector)})?.textContent.replaceAll('\\u00a0', ' ') ?? ''"
        deadline = time.monotonic() + HANG_S
        while wanted not in (found := str(self.evaluate(script))):
            assert time.monotonic() < deadline, found
            time.sleep(POLL_S)

    def wait_for_screen(self, is_wanted: Callable[[Screen], bool]) -> None:
        """Wait until the console's canvas shows something."""
        deadline = time.monotonic() + HANG_S
        while not is_wanted(self._screen()):
            assert time.monotonic() < deadline, "the canvas shows something else"
            time.sleep(POLL_S)

    def _screen(self) -> Screen:
        return self._pixels("Promise.resolve(document.querySelector('#screen canvas'))")

    def read_png(self, image: bytes) -> Screen:
        """Return the pixels of an image file."""
        return self._pixels(DRAWN.replace("IMAGE", base64.b64encode(image).decode()))

    def _pixels(self, canvas: str) -> Screen:
        width, height, pixels = self.evaluate(f"{canvas}.then({PIXELS})")
        return Screen(width, height, base64.b64decode(pixels))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol, and return its result."""
        number = next(self._numbers)
        self._tab.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (answer := json.loads(self._tab.recv(HANG_S))).get("id") != number:
            pass
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result


@contextmanager
def browser(directory: Path) -> Iterator[Browser]:
    """Start Chromium with a profile of its own."""
    if not shutil.which("chromium"):
        missing("Chromium is needed", "apt-get install chromium")
    said = directory / "chromium.log"
    command = ["chromium", *ARGUMENTS, f"--user-data-dir={directory / 'profile'}", "about:blank"]
    with said.open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as chromium:
        try:
            port = _port(said)
            [page] = wait_for(lambda: _pages(port), bool, "a page")
            with connect(page["webSocketDebuggerUrl"], max_size=None, open_timeout=HANG_S, ping_interval=None) as tab:
                yield Browser(tab)
        finally:
            chromium.terminate()


def _pages(port: int) -> list[dict[str, Any]]:
    """Return the pages that are open: Chromium listens before it has opened the first one."""
    return [each for each in http.get(f"http://127.0.0.1:{port}/json").json() if each["type"] == "page"]


def _port(log: Path) -> int:
    deadline = time.monotonic() + HANG_S
    while not (found := re.search(r"DevTools listening on ws://127\.0\.0\.1:(\d+)/", log.read_text(errors="replace"))):
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(POLL_S)
    return int(found[1])
