"""A host that hangs is fenced by its device, its server is evacuated, and the host comes back with its stale guest.

The devices are a simulated board of IPMI, and an emulator of Redfish with a libvirt guest that stands for the machine.
What the machine runs ends with its power: the agent, and the QEMU of the real guest.
"""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.hypervisors import LibvirtPair, libvirt_hosts, libvirt_pair
from tests.contracts.real_fence_devices import (
    ENDS,
    MACHINE,
    IpmiMachine,
    RedfishMachine,
    ipmi_machine,
    redfish_service,
)
from tests.live.agent_cloud import Cloud, agent_cloud
from tests.processes import wait_for
from whimbrel.embedded.tick_guest import ticks

pytestmark = pytest.mark.long

__all__ = ["libvirt_hosts", "libvirt_pair"]

SETTINGS = """
[rules]
accept_forced_down = false

[[fence]]
host = "a"
{device}
"""

PROGRAM = """#!/bin/sh
# What runs on the machine ends with its power: the agent, and every process that has a guest's directory open.
kill -9 {agent}
for one in /proc/[0-9]*; do
    tr '\\0' '\\n' 2>/dev/null < $one/cmdline | head -1 | grep -q qemu || continue
    tr '\\0' ' ' 2>/dev/null < $one/cmdline | grep -q '{guests}' && kill -9 ${{one#/proc/}}
done
exit 0
"""


@dataclass(frozen=True)
class Machine:
    """A machine with a fence device. directory: of the program that ends what it runs."""

    fenced: IpmiMachine | RedfishMachine
    directory: Path

    @property
    def is_on(self) -> bool:
        return asyncio.run(self.fenced.works())

    def turn_on(self) -> None:
        asyncio.run(self.fenced.turn_on())


@pytest.fixture(params=["ipmi", "redfish"])
def machine(request: pytest.FixtureRequest, tmp_path: Path, libvirt_pair: LibvirtPair) -> Iterator[Machine]:
    directory = tmp_path / "board"
    directory.mkdir()
    if request.param == "ipmi":
        with ipmi_machine(directory) as board:
            yield Machine(board, directory)
        return
    with redfish_service(directory, libvirt_pair.hosts.daemons["a"].uri) as service:
        made = RedfishMachine(libvirt_pair.hosts, *service)
        yield Machine(made, directory)
        made.close()


@pytest.fixture
def cloud(tmp_path: Path, libvirt_pair: LibvirtPair, machine: Machine) -> Iterator[Cloud]:
    """Return a cloud with two libvirt hosts; the first has a fence device, and no word of a person counts."""
    device = "\n".join(f"{name} = {json.dumps(value)}" for name, value in machine.fenced.settings.items())
    said = SETTINGS.format(device=device)
    with agent_cloud(tmp_path, said) as cloud:
        for name in ("a", "b"):
            cloud.join_libvirt(libvirt_pair, name)
        yield cloud


def active_on(pair: LibvirtPair, name: str) -> int:
    import libvirt  # not every environment has it: the fixture skips the test there

    with pair.hosts.connection(name) as connection:
        return guests_among(connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE))


def defined_on(pair: LibvirtPair, name: str) -> int:
    with pair.hosts.connection(name) as connection:
        return guests_among(connection.listAllDomains())


def guests_among(domains: list[Any]) -> int:
    return sum(not domain.name().startswith(MACHINE) for domain in domains)


@contextmanager
def watching(look: Callable[[], int]) -> Iterator[list[int]]:
    """Look all the time from a thread of its own; the list has what was seen."""
    seen, ended = list[int](), threading.Event()

    def watch() -> None:
        while not ended.is_set():
            seen.append(look())

    with ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(watch)
        try:
            yield seen
        finally:
            ended.set()
        watcher.result()  # raises what ended it too early


def evacuation(cloud: Cloud, server: str) -> dict[str, Any]:
    """Return the only migration of a server, which is an evacuation."""
    [migration] = cloud.api.get("compute", f"/os-migrations?instance_uuid={server}")["migrations"]
    assert migration["migration_type"] == "evacuation"
    return migration


def forced_down(cloud: Cloud, is_down: bool) -> None:
    [service] = cloud.api.get("compute", "/os-services?host=a&binary=nova-compute")["services"]
    cloud.api.put("compute", f"/os-services/{service['id']}", {"forced_down": is_down})


def test_the_stale_guest_of_a_fenced_host_is_destroyed(
    cloud: Cloud,
    machine: Machine,
    libvirt_pair: LibvirtPair,
) -> None:
    server = cloud.boot(host="a")
    wait_for(lambda: ticks(cloud.console(server)), bool, "the guest runs")
    agent = cloud.agents["a"]
    ends = machine.directory / ENDS
    ends.write_text(PROGRAM.format(agent=agent.pid, guests=libvirt_pair.directory("a")))
    ends.chmod(0o755)

    os.kill(agent.pid, signal.SIGSTOP)  # it hangs; its guest runs on
    forced_down(cloud, True)
    with watching(lambda: active_on(libvirt_pair, "a") + active_on(libvirt_pair, "b")) as running:
        cloud.api.post("compute", f"/servers/{server}/action", {"evacuate": {}})
        wait_for(lambda: cloud.server(server)["OS-EXT-SRV-ATTR:host"], lambda host: host == "b", "it has arrived")
        cloud.until(server, "SHUTOFF")  # from 2.95 on its owner starts it
        cloud.act(server, "ACTIVE", {"os-start": None})
        assert not machine.is_on, "the power of the machine was cut"
        assert defined_on(libvirt_pair, "a") == 1, "the stale guest is left there, off"

        machine.turn_on()
        agent.kill()
        agent.start()
        agent.wait_until_it_says("serves")
        forced_down(cloud, False)
        wait_for(lambda: defined_on(libvirt_pair, "a"), lambda left: left == 0, "the stale guest is destroyed")
    assert max(running) == 1, "never did two of them run"
    # The migration is `done` until the source's agent has reported that the stale guest is destroyed.
    wait_for(lambda: evacuation(cloud, server)["status"], lambda status: status == "completed", "it is complete")
    wait_for(lambda: ticks(cloud.console(server)), bool, "the guest runs on its new host")
    assert "holds" in cloud.command("prove")
