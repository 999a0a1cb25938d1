"""A tab with the dashboard: what a person does there."""

import json
import time

from tests.live.browser import POLL_S, Browser
from tests.processes import HANG_S

IMAGE = "(await (await fetch('image/v2/images', {headers})).json()).images[0].id"
BOOT = """(async () => {
    const headers = {'x-auth-token': JSON.parse(sessionStorage.whimbrel).token, 'content-type': 'application/json',
        'openstack-api-version': 'compute 2.104'};
    const server = {name: NAME, flavorRef: '1', imageRef: IMAGE, networks: 'none'};
    return (await fetch('compute/v2.1/servers', {method: 'POST', headers, body: JSON.stringify({server})})).status;
})()"""


LOADS_WITHIN_S = 60.0
"""After this time a page is loaded anew: it may be slow, too, and is not taken for broken."""


class DashboardTab:
    def __init__(self, browser: Browser, url: str) -> None:
        self._browser = browser
        self._url = url

    def log_in(self, user: str, password: str) -> None:
        self._open()
        for name, value in (("user", user), ("password", password)):
            self._browser.evaluate(f"document.querySelector('input[name={name}]').value = {json.dumps(value)}")
        self.submit("form")
        self.wait_for("document.querySelector('.live.on') !== null")

    def _open(self) -> None:
        """Load the page. A browser that has lost an answer to a script shows nothing until the page is loaded again."""
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline:
            self._browser.open(self._url)
            loaded_by = time.monotonic() + LOADS_WITHIN_S
            while time.monotonic() < loaded_by:
                if self._browser.evaluate("document.querySelector('input[name=user]') !== null"):
                    return
                time.sleep(POLL_S)
        raise AssertionError(f"{self._url} does not show its form")

    def boot(self, name: str) -> None:
        """Create a server, as another client would."""
        script = BOOT.replace("NAME", json.dumps(name)).replace("IMAGE", IMAGE)
        assert self._browser.evaluate(script) == 202

    def go(self, page: str) -> None:
        self._browser.evaluate(f"location.hash = '#/{page}'")

    def submit(self, form: str) -> None:
        self.wait_for(f"document.querySelector({json.dumps(form)}) !== null")
        self._browser.evaluate(f"document.querySelector({json.dumps(form)}).requestSubmit()")

    def click(self, selector: str, text: str) -> None:
        """Click an element that has this text, as soon as there is one."""
        found = (
            f"[...document.querySelectorAll({json.dumps(selector)})].find(e => e.textContent === {json.dumps(text)})"
        )
        self.wait_for(f"{found} !== undefined")
        self._browser.evaluate(f"{found}.click()")

    def text(self, selector: str) -> str:
        return str(self._browser.evaluate(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''"))

    def links(self, selector: str) -> list[str]:
        found: list[str] = self._browser.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector + ' a')})].map(each => each.textContent)"
        )
        return found

    def count(self, selector: str) -> int:
        return int(self._browser.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def wait_for(self, condition: str) -> None:
        deadline = time.monotonic() + HANG_S
        while not self._browser.evaluate(condition):
            assert time.monotonic() < deadline, f"{condition}\n{self._browser.evaluate('document.body.innerText')}"
            time.sleep(POLL_S)
