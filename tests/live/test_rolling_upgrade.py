"""A cloud of many machines goes from the release before to this one, process by process, while its servers move."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.live.machine_checks import check_at_rest
from tests.live.machine_load import User, started_users, wait_for_moves
from tests.live.machine_network import own_subnet
from tests.live.many_machines import BRIEF_WORK, ManyMachines, Sizes, many_machines
from tests.live.releases import BEFORE, sources
from tests.processes import wait_for
from whimbrel.cli.client import Api, Login

__all__ = ["sources"]

pytestmark = pytest.mark.long

SEED = 5
SIZES = Sizes(cells={"cell1": 2, "cell2": 2})
DEAD = "h3"
"""The host that dies after half of the agents were upgraded; it comes back with the new release."""


@pytest.fixture
def cloud(sources: Path) -> Iterator[ManyMachines]:
    with TemporaryDirectory(prefix="wm") as directory:  # pytest's own are closed to the user of PostgreSQL
        Path(directory).chmod(0o711)
        with many_machines(Path(directory), own_subnet(), SIZES, BRIEF_WORK, sources) as started:
            yield started


class Upgrade:
    """Replaces processes by those of one release or the other. Servers move between any two replacements."""

    def __init__(self, cloud: ManyMachines, api: Api, users: list[User], sources: Path) -> None:
        self._cloud, self._api, self._users, self._sources = cloud, api, users, sources
        self._older = set(cloud.programs)

    def check(self) -> Any:
        """Return what `whimbrel upgrade check` of this release says."""
        self._cloud.sources = None
        words = ("upgrade", "check", "--json", "--settings", str(self._cloud.settings))
        return json.loads(self._cloud.try_whimbrel(*words).stdout)["upgrade"]

    def forward(self, *names: str) -> None:
        for name in names:
            self._cloud.sources = None
            self._cloud.replace(name)
            self._older.discard(name)
            self._see()

    def back(self, *names: str) -> None:
        for name in names:
            self._cloud.sources = self._sources
            self._cloud.replace(name)
            self._older.add(name)
            self._see()

    def lose(self, host: str) -> None:
        """Cut the power of a host, evacuate it, and start its agent again with this release.

        Servers that are moved at this moment are not evacuated: their moves go on when the agent is back.
        """
        self._cloud.sources = None
        self._cloud.cut_power(host)
        self._cloud.whimbrel("host", "force-down", host, "--reason", "the rack has no power")
        self._cloud.try_whimbrel("host", "evacuate", host)
        self._cloud.whimbrel("host", "force-down", host, "--undo")
        self._cloud.restart(host)
        self._older.discard(host)
        self._see()

    def _see(self) -> None:
        """Wait until the cloud knows of which release its processes are, and servers have moved."""
        expected = Counter(map(_role, self._older))
        wait_for(self._known_as_older, lambda found: found == expected, f"{dict(expected)} are old", poll_s=0.5)
        wait_for_moves(self._users)

    def _known_as_older(self) -> Counter[str]:
        said = self.check()
        members = (*said["processes"], *said["agents"])
        return Counter(each["role"] for each in members if each["release"] == BEFORE["version"])


def _role(name: str) -> str:
    role = name.rstrip("0123456789")
    return "agent" if role == "h" else role


def test_roles_are_upgraded_one_by_one_and_rolled_back(cloud: ManyMachines, sources: Path) -> None:
    """The order is that of docs/upgrade.md. A host dies while agents are of both releases; some processes go back."""
    with Api(Login(cloud.home.clouds, "whimbrel-admin")) as api:
        users = started_users(cloud, api, "user", SEED)
        resident = boot(api, host=DEAD)
        wait_for_moves(users, len(users))
        upgrade = Upgrade(cloud, api, users, sources)
        held_back = Counter(each["kind"] for each in upgrade.check()["holds_back"])
        assert (held_back["process"], held_back["agent"]) == (6, 4)
        cloud.whimbrel("db", "upgrade", "--settings", str(cloud.settings))
        upgrade.forward("conductor1", "conductor2", "api1", "api2", "image", "volume", "h1", "h2")
        upgrade.lose(DEAD)
        assert server(api, resident)["OS-EXT-SRV-ATTR:host"] not in (None, DEAD)
        upgrade.back("h1", "api1", "conductor1")
        wait_for_moves(users, len(users))
        upgrade.forward("conductor1", "api1", "h1", "h4")
        wait_for_moves(users, len(users))
        said = upgrade.check()
        assert {each["kind"] for each in said["holds_back"]} <= {"runs"}
        cleaned = "/os-migrations?migration_type=evacuation&status=done"
        wait_for(lambda: api.get("compute", cleaned)["migrations"], lambda left: not left, f"{DEAD} is cleaned up")
        check_at_rest(cloud, api, users, [])
        assert upgrade.check()["holds_back"] == []


def boot(api: Api, host: str) -> str:
    """Create a server that no user changes; return its id."""
    flavor = next(each["id"] for each in api.get("compute", "/flavors")["flavors"] if each["name"] == "m1.small")
    image = api.get("image", "/v2/images")["images"][0]["id"]
    body = {"name": "resident", "flavorRef": flavor, "imageRef": image, "networks": "none", "host": host}
    made: str = api.post("compute", "/servers", {"server": body})["server"]["id"]
    wait_for(lambda: server(api, made)["status"], lambda status: status == "ACTIVE", "the resident is active")
    return made


def server(api: Api, server_id: str) -> Any:
    return api.get("compute", f"/servers/{server_id}")["server"]
