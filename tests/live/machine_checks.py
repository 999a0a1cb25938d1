"""What a cloud of many machines has when its users have stopped: compared with what it says."""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from tests.live import libvirt_watch
from tests.live.machine_load import User, servers
from tests.live.many_machines import ManyMachines
from tests.processes import wait_for
from whimbrel.cli.client import Api
from whimbrel.sim.world.witness import double_runs


def check_at_rest(cloud: ManyMachines, api: Api, users: list[User], done: list[str]) -> None:
    """Stop the users, and compare what the hosts have with what the API says."""
    for user in users:
        user.stop()
        user.settle()
    assert [trouble for user in users for trouble in user.broken] == [], done
    wait_for(lambda: open_runs(api), lambda runs: not runs, "all runs end")
    assert double_runs(cloud.witness) + cloud.watch.double_runs == []
    expected = {(each["id"], each["OS-EXT-SRV-ATTR:host"], each["status"] == "ACTIVE") for each in servers(api)}
    assert {user.server for user in users} <= {server for server, _, _ in expected}
    assert guests(cloud) == expected, done
    proof = json.loads(cloud.whimbrel("prove", "--json"))["proof"]
    assert (proof["violations"], proof["unseen"]) == ([], [])


def open_runs(api: Api) -> list[object]:
    found: list[object] = api.get("compute", "/whimbrel/moves?open=true")["moves"]
    return found


def guests(cloud: ManyMachines) -> set[tuple[str, str, bool]]:
    """Return the guests that the hosts' own stores and libvirts have: server, host, whether it runs."""
    found = {guest for host, hosts in cloud.libvirt.items() for guest in libvirt_watch.guests(hosts, host)}
    for host in cloud.hosts.keys() - cloud.libvirt.keys():
        file = cloud.network.machine(host).directory / "agent" / "db" / "keep.sqlite"
        found |= {(guest["spec"]["key"]["server"], host, guest["power"] == "running") for guest in _stored(file, host)}
    assert max(Counter(server for server, _, _ in found).values()) == 1, found
    return found


def _stored(file: Path, host: str) -> list[dict[str, dict[str, dict[str, str]]]]:
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute("SELECT value FROM kept WHERE space = ?", (f"guests/{host}",))
        return [json.loads(value) for (value,) in rows]
