"""The settings of an agent's host: what the file says, and what the machine has."""

import os
from pathlib import Path

import pytest

from whimbrel.domain.errors import Invalid
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.control_plane import SHORTEST_LEASE_S
from whimbrel.settings import LibvirtHost, SimulatedHost
from whimbrel.settings.agent_host import host_of_agent

N17 = HostName("n17")


def test_without_settings_it_is_the_machine(tmp_path: Path) -> None:
    host = host_of_agent("whimbrel.toml", {}, N17, tmp_path / "not" / "yet")
    assert isinstance(host, LibvirtHost)
    assert (host.name, host.uri, host.zone, host.vcpus) == (N17, "qemu:///system", "nova", os.cpu_count())
    assert host.memory_mib >= 64
    assert host.disk_gib >= 1


def test_settings_come_before_the_machine(tmp_path: Path) -> None:
    table = {"driver": "simulated", "zone": "east", "vcpus": 3, "memory_mib": 5, "disk_gib": 7}
    host = host_of_agent("whimbrel.toml", table, N17, tmp_path)
    assert host == SimulatedHost(name=N17, zone="east", vcpus=3, memory_mib=5, disk_gib=7)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"name": "n18"}, "has joined as 'n17'"),
        ({"vcpus": 0}, "vcpus"),
        ({"driver": "xen"}, "driver"),
        ({"vcpu": 1}, "vcpu"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, table: dict[str, object], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        host_of_agent("whimbrel.toml", table, N17, tmp_path)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"migration_address": "192.0.2.7"}, "host 'n17' has the 'migration_address' '192.0.2.7', where others could"),
        ({"uri": "qemu+ssh://n18/system"}, "host 'n17' has the 'uri' 'qemu.ssh://n18/system', a libvirt of another"),
        ({"traits": ["HW_CPU_X86_NONE"]}, "'HW_CPU_X86_NONE' among its 'traits'"),
        ({"nic": [{"name": "ens5", "physnet": "p"}] * 2}, "the network card 'ens5' twice"),
        ({"pci": [{"address": "0000:81:00.1", "vendor_id": "8086", "product_id": "154d"}] * 2}, "'0000:81:00.1' twice"),
    ],
)
def test_a_host_keeps_the_rules_of_those_in_cells(tmp_path: Path, table: dict[str, object], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        host_of_agent("whimbrel.toml", table, N17, tmp_path, "10.1.0.0/24")


def test_memory_is_sent_inside_the_storage_network(tmp_path: Path) -> None:
    host = host_of_agent("whimbrel.toml", {"migration_address": "10.1.0.7"}, N17, tmp_path, "10.1.0.0/24")
    assert isinstance(host, LibvirtHost)
    assert host.migration_address == "10.1.0.7"


def test_a_host_fences_itself_if_the_settings_say_so(tmp_path: Path) -> None:
    assert host_of_agent("whimbrel.toml", {}, N17, tmp_path).self_fence_s is None
    assert host_of_agent("whimbrel.toml", {"self_fence_s": 30}, N17, tmp_path).self_fence_s == SHORTEST_LEASE_S == 30


def test_a_lease_that_one_lost_heartbeat_ends_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        host_of_agent("whimbrel.toml", {"self_fence_s": 29.5}, N17, tmp_path)
    assert caught.value.reason == (
        "whimbrel.toml: [host] has 'self_fence_s' = 29.5; heartbeats are sent every 5 s and wait 10 s for their"
        " answers, so the host would stop its guests when one is lost: make it 30 or more"
    )
