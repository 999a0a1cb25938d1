"""Users of a cloud whose parts die: each has a server and changes it again and again, as clients do that retry."""

import time
from random import Random
from threading import Event, Thread
from typing import Any

from whimbrel.cli.client import Api, Login
from whimbrel.domain.errors import NotFound, WorldError

PAUSE_S = 0.3
AT_REST = {"ACTIVE", "SHUTOFF", "VERIFY_RESIZE", "ERROR"}


class User(Thread):
    """moves: how many of its moves arrived. broken: what must never be seen, as text."""

    def __init__(
        self, login: Login, name: str, flavors: tuple[str, str], image: str, seed: int, *, stops: bool = True
    ) -> None:
        """flavors: m1.small and the one to which it is resized. stops: also stop and start the server."""
        super().__init__(name=name, daemon=True)
        self._api = Api(login)
        self._name = name
        self._flavors = flavors
        self._image = image
        self._stops = stops
        self._rng = Random(seed)
        self._is_over = Event()
        self._is_logged_in = False
        self._said = "nothing was asked yet"
        self.server = ""
        self.moves = 0
        self.broken: list[str] = []

    def run(self) -> None:
        body = {"name": self._name, "flavorRef": self._flavors[0], "imageRef": self._image, "networks": "none"}
        while not self.server and not self._is_over.is_set():
            found = self._ask("GET", f"/servers?name=^{self._name}$")["servers"]  # a lost answer may have created it
            made = found[0] if found else (self._try("POST", "/servers", {"server": body}) or {}).get("server")
            self.server = made["id"] if made else ""
        while not self._is_over.is_set():
            self.act()

    def stop(self) -> None:
        """Change nothing more; wait until the last change was accepted or refused."""
        self._is_over.set()
        self.join()

    def settle(self) -> dict[str, Any]:
        """Wait until the server is at rest, confirm a move that waits, and return the server."""
        assert self.server, f"{self._name} has no server: {self._said}"
        while True:
            server = self._rest()
            if server["status"] != "VERIFY_RESIZE":
                return server
            self._try("POST", f"/servers/{self.server}/action", {"confirmResize": None})
            time.sleep(PAUSE_S)

    def act(self) -> None:
        server = self._rest()
        status = server["status"]
        if status == "VERIFY_RESIZE":
            self.moves += 1
            action = self._rng.choice(["confirmResize", "confirmResize", "revertResize"])
            self._act(action, None)
        elif status == "SHUTOFF":
            self._act("os-start", None)
        elif status == "ERROR":
            self.broken.append(f"{self._name} is in ERROR: {server.get('fault', {}).get('message')}")
            self._is_over.set()
        else:
            other = self._flavors[server["flavor"]["original_name"] == "m1.small"]
            changes: list[tuple[str, Any]] = [("migrate", None), *[("resize", {"flavorRef": other})] * 2]
            action, argument = self._rng.choice([*changes, ("os-stop", None)] if self._stops else changes)
            self._act(action, argument)
        time.sleep(PAUSE_S)

    def _act(self, action: str, argument: Any) -> None:
        self._try("POST", f"/servers/{self.server}/action", {action: argument})

    def _rest(self) -> dict[str, Any]:
        """Wait until nothing changes the server; return it."""
        while True:
            server: dict[str, Any] = self._ask("GET", f"/servers/{self.server}")["server"]
            if server["status"] in AT_REST and server["OS-EXT-STS:task_state"] is None:
                return server
            time.sleep(PAUSE_S)

    def _ask(self, method: str, path: str) -> Any:
        """Ask until there is an answer."""
        while True:
            answer = self._try(method, path)
            if answer is not None:
                return answer
            time.sleep(PAUSE_S)

    def _try(self, method: str, path: str, body: Any = None) -> Any:
        """Ask once. None: no answer, or the request was refused, as one that comes while the server changes."""
        try:
            if not self._is_logged_in:
                self._api.log_in()
                self._is_logged_in = True
            if method == "GET":
                return self._api.get("compute", path)
            return self._api.post("compute", path, body) or {}
        except NotFound as error:
            if self.server:
                self.broken.append(f"{self._name} is gone: {error.reason}")
                self._is_over.set()
                raise
        except WorldError as trouble:
            self._said = trouble.reason
        return None
