"""The settings of an agent's host: what the file says, and what the machine has."""

import os
from pathlib import Path

import pytest

from whimbrel.domain.errors import Invalid
from whimbrel.domain.ids import HostName
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
