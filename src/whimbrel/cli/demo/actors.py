"""Users of the demo's cloud: a member that owns the servers, and an operator. Both use the API."""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from whimbrel.api.views.moves import Move, MoveAnswer, Moves
from whimbrel.cli.client import Api
from whimbrel.cli.demo.output import Output
from whimbrel.domain.errors import Unavailable

POLL_S = 0.1
TIMEOUT_S = 60.0


class Member:
    """The owner of the servers, with the commands that an owner would type."""

    def __init__(self, api: Api, output: Output, timeout_s: float = TIMEOUT_S) -> None:
        self.api = api
        self._output = output
        self._timeout_s = timeout_s

    def boot(self, names: list[str], flavor: str, image: str) -> dict[str, str]:
        """Boot servers and wait until they run; return their ids by name."""
        image_id = self.api.get("image", f"/v2/images?name={image}")["images"][0]["id"]
        ids = {}
        for name in names:
            self._output.command("openstack", f"server create --flavor {flavor} --image {image} {name}")
            wanted = {"name": name, "flavorRef": flavor, "imageRef": image_id, "networks": "none"}
            ids[name] = self.api.post("compute", "/servers", {"server": wanted})["server"]["id"]
        for id_ in ids.values():
            self.until(id_, "ACTIVE")
        return ids

    def resize(self, name: str, server: str, flavor: str) -> None:
        self._output.command("openstack", f"server resize --flavor {flavor} {name}")
        self._act(server, {"resize": {"flavorRef": flavor}})

    def confirm(self, name: str, server: str) -> None:
        self._output.command("openstack", f"server resize confirm {name}")
        self._act(server, {"confirmResize": None})

    def revert(self, name: str, server: str) -> None:
        self._output.command("openstack", f"server resize revert {name}")
        self._act(server, {"revertResize": None})

    def migrate(self, name: str, server: str) -> None:
        self._output.command("openstack", f"--os-cloud whimbrel-admin server migrate {name}")
        self._act(server, {"migrate": {}})

    def server(self, server: str) -> Any:
        return self.api.get("compute", f"/servers/{server}")["server"]

    def until(self, server: str, status: str) -> Any:
        """Wait until a server has a status. Raises: Unavailable: it does not get it."""
        return wait_for(
            lambda: self.server(server),
            lambda now: now["status"] == status and now["OS-EXT-STS:task_state"] is None,
            f"server {server} to become {status}",
            timeout_s=self._timeout_s,
        )

    def _act(self, server: str, body: Any) -> None:
        self.api.post("compute", f"/servers/{server}/action", body)


class Operator(Member):
    """A user that may see moves and hosts."""

    def latest_move(self, server: str) -> Move:
        [newest, *_] = msgspec.convert(self.api.get("compute", f"/whimbrel/moves?server={server}"), Moves).moves
        return self.move(newest.id)

    def move(self, move: str) -> Move:
        return msgspec.convert(self.api.get("compute", f"/whimbrel/moves/{move}"), MoveAnswer).move

    def make_flavor(self, name: str, vcpus: int, ram: int, disk: int) -> None:
        self._output.command(
            "openstack",
            f"--os-cloud whimbrel-admin flavor create --id {name} --vcpus {vcpus} --ram {ram} --disk {disk} {name}",
        )
        flavor = {"name": name, "id": name, "vcpus": vcpus, "ram": ram, "disk": disk}
        self.api.post("compute", "/flavors", {"flavor": flavor})


def wait_for(
    look: Callable[[], Any],
    enough: Callable[[Any], bool],
    what: str,
    poll_s: float = POLL_S,
    timeout_s: float = TIMEOUT_S,
) -> Any:
    """Poll until `enough` is true. Raises: Unavailable: timeout."""
    deadline = time.monotonic() + timeout_s
    while True:
        seen = look()
        if enough(seen):
            return seen
        if time.monotonic() > deadline:
            raise Unavailable(f"waited {timeout_s:.0f} s for {what}{_last(seen)}")
        time.sleep(poll_s)


def _last(seen: Any) -> str:
    """Return the last poll's result as text."""
    if isinstance(seen, Move):
        return f"; it stands at {seen.at}, {seen.state}: {seen.message or 'no trouble is known'}"
    return f"; it is {seen['status']}" if isinstance(seen, dict) and "status" in seen else ""
