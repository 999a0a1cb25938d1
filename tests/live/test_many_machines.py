"""A cloud of many machines whose parts die, hang and are cut off: nothing is lost, nothing runs twice, all ends.

Without WHIMBREL_MACHINES_EVENTS it is short; with 100 events or more it is the test of a release: 3 APIs, 3 conductors,
8 agents. Two of the agents have real guests.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from tests.live.machine_checks import check_at_rest
from tests.live.machine_load import ALWAYS, started_users, wait_for_moves, wait_until_all_move
from tests.live.machine_network import own_subnet
from tests.live.many_machines import BRIEF_WORK, ManyMachines, Sizes, many_machines
from tests.processes import wait_for
from whimbrel.cli.client import Api, Login

pytestmark = pytest.mark.long

EVENTS = int(os.environ.get("WHIMBREL_MACHINES_EVENTS", "10"))
SEED = int(os.environ.get("WHIMBREL_MACHINES_SEED", "1"))
LASTS_S = 4.0
"""How long a disturbance lasts: longer than a lease, so that others take over."""

IS_LONG = EVENTS >= 100
"""Whether it is the test of a release: about 20 minutes."""
SIZES = Sizes(
    apis=3 if IS_LONG else 2,
    conductors=3 if IS_LONG else 2,
    bus_servers=3,
    replicas=1,
    cells={"cell1": 3, "cell2": 3 if IS_LONG else 2},
    libvirt={"cell1": 2},
    wrong_clocks=("conductor1", "h2"),
)


@pytest.fixture(scope="module")
def cloud() -> Iterator[ManyMachines]:
    with TemporaryDirectory(prefix="wm") as directory:  # pytest's own are closed to the user of PostgreSQL
        Path(directory).chmod(0o711)
        with many_machines(Path(directory), own_subnet(), SIZES, BRIEF_WORK) as started:
            yield started


class Disturber:
    """Disturbs one part of a cloud after the other."""

    def __init__(self, cloud: ManyMachines, rng: Random) -> None:
        self._cloud = cloud
        self._rng = rng
        self.done: list[str] = []

    def disturb(self) -> None:
        kinds: list[Callable[[], str]] = [
            self._kill,
            self._kill,
            self._kill,
            self._pause,
            self._disconnect,
            self._kill_bus,
            self._pause_bus,
            self._kill_libvirt,
        ]
        self.done.append(self._rng.choice(kinds)())

    def _any(self) -> str:
        return self._rng.choice(sorted(self._cloud.programs))

    def _kill(self) -> str:
        name = self._any()
        self._cloud.programs[name].kill()
        time.sleep(self._rng.choice([0.0, LASTS_S]))
        self._cloud.restart(name)
        return f"killed {name}"

    def _pause(self) -> str:
        name = self._any()
        self._cloud.programs[name].pause()
        time.sleep(LASTS_S)
        self._cloud.programs[name].resume()
        return f"paused {name}"

    def _disconnect(self) -> str:
        name = self._any()
        machine = self._cloud.programs[name].machine
        machine.disconnect()
        time.sleep(LASTS_S)
        machine.reconnect()
        return f"disconnected {name}"

    def _kill_bus(self) -> str:
        program = self._rng.choice(self._cloud.bus)
        program.kill()
        time.sleep(LASTS_S)
        program.start()
        return f"killed {program.name}"

    def _pause_bus(self) -> str:
        program = self._rng.choice(self._cloud.bus)
        program.pause()
        time.sleep(LASTS_S)
        program.resume()
        return f"paused {program.name}"

    def _kill_libvirt(self) -> str:
        """Kill a libvirtd; its guests run on."""
        name = self._rng.choice(sorted(self._cloud.libvirt))
        hosts = self._cloud.libvirt[name]
        asyncio.run(hosts.daemons[name].kill())
        time.sleep(LASTS_S)
        hosts.start(name)
        return f"killed the libvirtd of {name}"


def test_nothing_is_lost_whatever_dies(cloud: ManyMachines) -> None:
    with Api(Login(cloud.home.clouds, "whimbrel-admin")) as api:
        users = started_users(cloud, api, "user", SEED)
        disturber = Disturber(cloud, Random(SEED))
        for number in range(EVENTS):
            wait_for_moves(users)
            if number == EVENTS // 2:
                cloud.fail_over()
            disturber.disturb()
        wait_until_all_move(users)
        for program in (*cloud.programs.values(), *cloud.bus):
            assert program.is_running, program.output[-3000:]
        assert cloud.watch.homes == cloud.libvirt.keys()
        check_at_rest(cloud, api, users, disturber.done)


def test_a_restored_database_loses_no_server(cloud: ManyMachines) -> None:
    """The copy is taken while servers move; they go on for a while, and then the database is that of the copy.

    Servers are not stopped: whether a guest should run is not known after a restore.
    """
    with Api(Login(cloud.home.clouds, "whimbrel-admin")) as api:
        users = started_users(cloud, api, "owner", SEED, ALWAYS)
        wait_for_moves(users, len(users))
        copy = cloud.directory / "copy"
        cloud.dump(copy)
        wait_for_moves(users, len(users))
        for user in users:
            user.stop()
            user.settle()
        cloud.restore(copy)
        wait_for(lambda: held(cloud), bool, "all runs are held")
        cloud.whimbrel("restore", "--yes")
        check_at_rest(cloud, api, users, [])


def test_hosts_know_no_database(cloud: ManyMachines) -> None:
    """Whoever takes over a host finds a way to the bus there, and none to a database."""
    databases = {machine.address for machine in cloud.database_machines}
    for host in cloud.hosts:
        machine = cloud.network.machine(host)
        found = {file.name: file.read_bytes() for file in machine.directory.rglob("*") if file.is_file()}
        assert len(found) > 3
        for name, content in found.items():
            assert not any(word in content for word in (b"postgres", *(each.encode() for each in databases))), name
        connected = {line.split()[4].rpartition(":")[0] for line in machine.execute("ss", "-tnH").stdout.splitlines()}
        assert connected & {program.machine.address for program in cloud.bus}
        assert not connected & databases


def held(cloud: ManyMachines) -> bool:
    """Check whether the cloud has noticed that its database is older than its hosts."""
    done = cloud.try_whimbrel("restore", "show", "--json")  # its exit code is 1 then
    return bool(done.stdout and json.loads(done.stdout)["restore"]["held"])
