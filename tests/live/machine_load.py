"""Users of a cloud whose parts die: each has a server and changes it again and again, as clients do that retry."""

import time
from collections.abc import Collection
from itertools import cycle, islice
from random import Random
from threading import Event, Thread
from typing import Any

from tests.live.many_machines import LIBVIRT_ZONE, ManyMachines
from tests.processes import wait_for
from whimbrel.cli.client import Api, Login
from whimbrel.domain.errors import NotFound, WorldError
from whimbrel.embedded import tick_guest

IMAGE = "live"
PAUSE_S = 0.3
AT_REST = {"ACTIVE", "SHUTOFF", "VERIFY_RESIZE", "SHELVED_OFFLOADED", "ERROR"}
ANYWHERE = "to any host"
"""A migration to a host that is named, maybe of the other cell."""
ALWAYS = ("migrate", "resize")
ENDS = {"VERIFY_RESIZE": "confirmResize", "SHELVED_OFFLOADED": "unshelve"}
ALL = (*ALWAYS, "os-migrateLive", "shelve", "os-stop", ANYWHERE)


class User(Thread):
    """moves: how many of its moves arrived. broken: what must never be seen, as text."""

    def __init__(
        self,
        login: Login,
        name: str,
        *,
        flavors: tuple[str, str],
        image: str,
        zone: str,
        hosts: Collection[str],
        seed: int,
        acts: Collection[str],
    ) -> None:
        """flavors: m1.small and the one to which it is resized. zone: of the server, with these hosts.

        acts: what is done with an active server.
        """
        super().__init__(name=name, daemon=True)
        self._api = Api(login)
        self._name = name
        self._flavors = flavors
        self._image = image
        self._acts = sorted(acts)
        self._zone = zone
        self._hosts = sorted(hosts)
        self._host: str | None = None  # at the last look
        self._rng = Random(seed)
        self._is_over = Event()
        self._is_logged_in = False
        self._said = "nothing was asked yet"
        self.server = ""
        self.moves = 0
        self.broken: list[str] = []

    def run(self) -> None:
        body = {
            "name": self._name, "flavorRef": self._flavors[0], "imageRef": self._image, "networks": "none",
            "availability_zone": self._zone,
        }  # fmt: skip
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
            if server["status"] not in ENDS:
                return server
            self._act(ENDS[server["status"]], None)
            time.sleep(PAUSE_S)

    def act(self) -> None:
        server = self._rest()
        status, host = server["status"], server["OS-EXT-SRV-ATTR:host"]
        self.moves += host not in (None, self._host) or status == "VERIFY_RESIZE"
        self._host = host or self._host
        if status == "VERIFY_RESIZE":
            action = self._rng.choice(["confirmResize", "confirmResize", "revertResize"])
            self._act(action, None)
        elif status == "SHUTOFF":
            self._act("os-start", None)
        elif status == "SHELVED_OFFLOADED":
            self._act("unshelve", None)
        elif status == "ERROR":
            self.broken.append(f"{self._name} is in ERROR: {server.get('fault', {}).get('message')}")
            self._is_over.set()
        else:
            self._change(self._rng.choice(self._acts), server["flavor"]["original_name"] == "m1.small")
        time.sleep(PAUSE_S)

    def _change(self, act: str, is_small: bool) -> None:
        if act == ANYWHERE:
            self._act("migrate", {"host": self._rng.choice(self._hosts)})
        elif act == "resize":
            self._act("resize", {"flavorRef": self._flavors[is_small]})
        elif act == "os-migrateLive":
            self._act(act, {"host": None, "block_migration": "auto"})
        else:
            self._act(act, None)

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


def started_users(cloud: ManyMachines, api: Api, name: str, seed: int, acts: Collection[str] = ALL) -> list[User]:
    """Start six users, two of them on libvirt hosts if there are any. acts: what they do with an active server.

    The servers of an earlier test are deleted: the quota of a project admits 10.
    """
    for server in servers(api):
        api.delete("compute", f"/servers/{server['id']}")
    wait_for(lambda: servers(api), lambda found: not found, "all servers are deleted")
    login = Login(cloud.home.clouds, "whimbrel-admin")
    flavors = {each["name"]: each["id"] for each in api.get("compute", "/flavors")["flavors"]}
    image = _image(api)
    sizes = flavors["m1.small"], flavors["m1.medium"]
    simulated = sorted({cloud.zone(host) for host in cloud.hosts.keys() - cloud.libvirt.keys()})
    zones = [*islice(cycle(simulated), 4), *islice(cycle([LIBVIRT_ZONE] if cloud.libvirt else simulated), 2)]
    users = [
        User(
            login, f"{name}{number}",
            flavors=sizes, image=image, zone=zone, hosts=[host for host in cloud.hosts if cloud.zone(host) == zone],
            seed=seed * 100 + number, acts=acts,
        )
        for number, zone in enumerate(zones)
    ]  # fmt: skip
    for user in users:
        user.start()
    return users


def _image(api: Api) -> str:
    """Return the image of all servers: a guest that can be moved live by an emulator."""
    found = api.get("image", f"/v2/images?name={IMAGE}")["images"]
    if not found:
        wanted = {"name": IMAGE, "disk_format": "raw", "container_format": "bare"}
        found = [api.post("image", "/v2/images", wanted)]
        api.put("image", f"/v2/images/{found[0]['id']}/file", content=tick_guest.image(for_live_moves=True))
    image: str = found[0]["id"]
    return image


def wait_for_moves(users: list[User], count: int = 1) -> None:
    """Wait until so many more moves have arrived."""
    before = _moves(users)
    wait_for(lambda: _moves(users), lambda now: now >= before + count, "moves arrive")


def wait_until_all_move(users: list[User]) -> None:
    """Wait until the server of each user has moved since its creation, which counts as one."""
    wait_for(lambda: min(_moves([user]) for user in users), lambda least: least > 1, "each server moves")


def _moves(users: list[User]) -> int:
    assert [trouble for user in users for trouble in user.broken] == []
    return sum(user.moves for user in users)


def servers(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get("compute", "/servers/detail")["servers"]
    return found
