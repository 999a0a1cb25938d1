"""The watchdog as a process: it stops the guests of an agent that hangs or was killed, simulated ones and QEMU's."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.hypervisors import LibvirtPair, libvirt_hosts, libvirt_pair
from tests.live.agent_cloud import Cloud, agent_cloud
from tests.processes import program, wait_for
from whimbrel.adapters.lease_files import LeaseFiles
from whimbrel.cli.demo.cloud_processes import Program
from whimbrel.ports.hosts.control_plane import SHORTEST_LEASE_S

pytestmark = pytest.mark.long

__all__ = ["libvirt_hosts", "libvirt_pair"]

SIMULATED = """
[host]
driver = "simulated"
vcpus = 8
memory_mib = 4096
disk_gib = 100
"""
SELF_FENCING = f"self_fence_s = {SHORTEST_LEASE_S}\n"


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    """Return a cloud without hosts, which agents can join."""
    with agent_cloud(tmp_path) as cloud:
        yield cloud


@pytest.fixture
def watchdog(tmp_path: Path) -> Iterator[Program]:
    """Return the watchdog of the host a, to be started."""
    made = program("watchdog", ["watchdog", "--dir", str(tmp_path / "a")], tmp_path / "watchdog.log")
    yield made
    made.end()


def server_on_a(cloud: Cloud, watchdog: Program) -> str:
    """Return a server that runs on the host a, which the cloud knows to fence itself."""
    watchdog.start()
    watchdog.wait_until_it_says("The cloud counts on that")
    wait_for(lambda: fences_itself_after(cloud), lambda found: found == SHORTEST_LEASE_S, "the host has promised it")
    return cloud.boot()


def fences_itself_after(cloud: Cloud) -> object:
    return cloud.api.get("compute", "/whimbrel/hosts/a")["host"]["self_fence_s"]


def end_by(number: signal.Signals, cloud: Cloud, directory: Path) -> None:
    """Send a signal to the agent, and wait until its guests were stopped."""
    agent = cloud.agents["a"]
    os.kill(agent.pid, number)
    wait_for(LeaseFiles(directory).fencings, bool, "the watchdog has stopped the guests")
    assert agent.ended_by(0) == -signal.SIGKILL, "an agent that hangs is killed"


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_simulated_guests_are_stopped(cloud: Cloud, watchdog: Program, tmp_path: Path, number: signal.Signals) -> None:
    cloud.join("a", SIMULATED + SELF_FENCING)
    server = server_on_a(cloud, watchdog)
    end_by(number, cloud, tmp_path / "a")
    [done] = LeaseFiles(tmp_path / "a").fencings()
    assert [guest.partition("/")[0] for guest in done.stopped] == [server]
    assert done.killed == []


def test_guests_of_libvirt_are_stopped(
    cloud: Cloud,
    watchdog: Program,
    libvirt_pair: LibvirtPair,
    tmp_path: Path,
) -> None:
    cloud.join_libvirt(libvirt_pair, "a", SELF_FENCING)
    server = server_on_a(cloud, watchdog)
    assert running(libvirt_pair) == 1
    end_by(signal.SIGSTOP, cloud, tmp_path / "a")
    assert running(libvirt_pair) == 0
    [done] = LeaseFiles(tmp_path / "a").fencings()
    assert [guest.partition("/")[0] for guest in done.stopped] == [server]


def test_guests_of_a_libvirt_that_hangs_are_killed(
    cloud: Cloud,
    watchdog: Program,
    libvirt_pair: LibvirtPair,
    tmp_path: Path,
) -> None:
    cloud.join_libvirt(libvirt_pair, "a", SELF_FENCING)
    server_on_a(cloud, watchdog)
    libvirtd = int((libvirt_pair.hosts.daemons["a"].directory / "libvirtd.pid").read_text())
    os.kill(libvirtd, signal.SIGSTOP)
    try:
        end_by(signal.SIGKILL, cloud, tmp_path / "a")
        [done] = LeaseFiles(tmp_path / "a").fencings()
        assert len(done.killed) == 1
    finally:
        os.kill(libvirtd, signal.SIGCONT)
    wait_for(lambda: running(libvirt_pair), lambda seen: seen == 0, "libvirt notices that its guest is gone")


def test_an_agent_that_is_stopped_leaves_its_guests_running(cloud: Cloud, watchdog: Program, tmp_path: Path) -> None:
    cloud.join("a", SIMULATED + SELF_FENCING)
    server_on_a(cloud, watchdog)
    cloud.agents["a"].end()
    assert LeaseFiles(tmp_path / "a").lease() is None
    assert fences_itself_after(cloud) is None


def running(pair: LibvirtPair) -> int:
    with pair.hosts.connection("a") as connection:
        return sum(bool(domain.isActive()) for domain in connection.listAllDomains())
