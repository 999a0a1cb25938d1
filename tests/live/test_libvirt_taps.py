"""A nic of a real guest is a tap device on its host, with the port's name, as long as the guest runs and has it."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import CAPACITY, SMALL_IMAGE, new_nic, new_spec
from tests.live.nic_stories import comes_and_goes, moves_cold, running
from tests.live.root_hosts import RootHost, root_hosts  # noqa: F401
from whimbrel.adapters.libvirt import LibvirtHypervisor
from whimbrel.adapters.libvirt.device_xml import Plugging
from whimbrel.domain.server_devices import GuestNic
from whimbrel.embedded.tick_guest import image
from whimbrel.sim.world.images import MemoryImages

LOOPBACK = {"lo": "65536"}


@pytest.fixture
def hosts(root_hosts: dict[str, RootHost]) -> dict[str, RootHost]:  # noqa: F811
    return root_hosts


def hypervisor(host: RootHost, nics: Plugging = "tap") -> LibvirtHypervisor:
    return LibvirtHypervisor(host.uri, host.guests_dir, MemoryImages({SMALL_IMAGE: image()}), **CAPACITY, nics=nics)


def taps(*nics: GuestNic) -> dict[str, str]:
    return LOOPBACK | {f"tap{nic.port_id[:11]}": str(nic.mtu) for nic in nics}


async def devices(host: RootHost) -> dict[str, str]:
    return await asyncio.to_thread(host.devices)


async def test_a_nic_is_a_tap_while_the_guest_has_it(hosts: dict[str, RootHost]) -> None:
    await comes_and_goes(hosts["a"], hypervisor(hosts["a"]), devices, taps)


async def test_the_tap_is_at_the_target_after_a_cold_move(hosts: dict[str, RootHost]) -> None:
    await moves_cold(hosts, hypervisor(hosts["a"]), hypervisor(hosts["b"]), devices, taps)


async def on(host: RootHost, *words: str) -> str:
    return await asyncio.to_thread(host.run, *words)


async def test_a_tap_of_the_data_plane_is_opened_and_left(hosts: dict[str, RootHost]) -> None:
    place, host = hosts["a"], hypervisor(hosts["a"], "bridge")
    first, second = new_nic(), new_nic()
    names = [f"tap{nic.port_id[:11]}" for nic in (first, second)]
    for name in names:
        await on(place, "ip", "tuntap", "add", name, "mode", "tap", "vnet_hdr")
        await on(place, "ip", "link", "set", name, "mtu", str(first.mtu), "up")

    async def opened() -> list[bool]:
        return ["LOWER_UP" in await on(place, "ip", "link", "show", name) for name in names]

    spec = replace(new_spec(), nics=(first,))
    await running(host, spec)
    assert await opened() == [True, False]
    await host.plug(spec.key, second)
    assert await opened() == [True, True]
    await host.unplug(spec.key, first.port_id)
    assert await opened() == [False, True]
    await host.destroy(spec.key)
    assert await opened() == [False, False]
    for name in names:
        await on(place, "ip", "link", "del", name)
