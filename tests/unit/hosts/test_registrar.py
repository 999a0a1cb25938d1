"""Hosts registered from descriptions: what operators set is kept, and nothing is written twice."""

import asyncio
from hashlib import sha256

import msgspec
import pytest
from msgspec.structs import replace

from tests.unit.hosts.descriptions import NEW, Reported, description, registrar
from whimbrel.domain.errors import Invalid, Superseded
from whimbrel.domain.host_hardware import FoundPciDevice, Hardware
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.pci import PciDevice
from whimbrel.hosts.zoning import put_into_zones
from whimbrel.ports.stores.catalog import zone_of
from whimbrel.ports.stores.hosts import AgentInfo
from whimbrel.sim.cloud.cloud import World

C1, C2 = CellName("c1"), CellName("c2")
AGENT = AgentInfo(release="0.4.0")
DEVICE = PciDevice(address="0000:81:00.1", vendor_id="8086", product_id="1572")


async def zone_name(world: World, host: HostName = NEW) -> str | None:
    zone = zone_of(host, await world.cloud.aggregates.all())
    return None if zone is None else (await world.cloud.zones.get(zone)).name


async def test_a_host_that_joins_is_known_everywhere_and_disabled() -> None:
    world, reported = await World.build(cells={"c1": ("h1",)}), Reported()
    full = description(pci=(DEVICE,), traits=("CUSTOM_SSD",), resources={"CUSTOM_GPU": 2}, dedicated_vcpus=4)
    host = await registrar(world, reported).begin_session(C1, AGENT, full)
    assert (host.session, host.enabled, host.disabled_reason) == (
        1,
        False,
        "joined; enable it with: whimbrel host enable n17",
    )
    cell = world.cloud.cell(C1)
    assert [held.device for held in await cell.devices.of(NEW)] == [DEVICE]
    assert await cell.hosts.descriptions() == {NEW: full}
    [provider] = [each for each in await world.cloud.placement.providers() if each.name == NEW]
    assert provider.capacity == {"VCPU": 8, "MEMORY_MB": 16384, "DISK_GB": 100, "PCPU": 4, "CUSTOM_GPU": 2}
    assert {"CUSTOM_SSD", "COMPUTE_STATUS_DISABLED"} <= provider.traits
    assert len(provider.aggregates) == 1
    assert await zone_name(world) == "north"
    assert reported.nets == [full.net]
    await world.close()


class DeviceOf02(msgspec.Struct, forbid_unknown_fields=True):
    """PciDevice of release 0.2, which refuses what it does not know."""

    address: str
    vendor_id: str
    product_id: str
    physnet: str | None = None
    parent_ifname: str | None = None


class DescriptionOf02(msgspec.Struct):
    pci: tuple[DeviceOf02, ...] = ()


def test_programs_of_0_2_read_devices_as_they_write_them() -> None:
    """Else they could read no host of the cell, and each heartbeat of their agents would bring a description."""
    sent = msgspec.json.encode(description(pci=(DEVICE,), live_migratable_pci=(DEVICE.address,)))
    [read] = msgspec.json.decode(sent, type=DescriptionOf02).pci
    assert msgspec.json.encode([read], order="deterministic") == msgspec.json.encode([DEVICE], order="deterministic")


def test_programs_of_0_2_ignore_what_was_found() -> None:
    found = Hardware(nics=(), pci=(FoundPciDevice(address="0000:81:00.1", vendor_id="8086", product_id="1572"),))
    sent = msgspec.json.encode(description(pci=(DEVICE,), hardware=found))
    assert msgspec.json.decode(sent, type=DescriptionOf02) == DescriptionOf02(
        pci=(DeviceOf02(address=DEVICE.address, vendor_id="8086", product_id="1572"),)
    )


def test_an_agent_of_0_2_has_the_digest_that_it_had() -> None:
    """Else each of its heartbeats would bring a description."""
    text = msgspec.json.encode(description(), order="deterministic")
    assert b"hardware" not in text
    assert description().digest() == sha256(text).hexdigest()


async def test_devices_that_can_be_moved_live_are_registered_so() -> None:
    world = await World.build(cells={"c1": ("h1",)})
    other = replace(DEVICE, address="0000:81:00.2")
    said = description(pci=(DEVICE, other), live_migratable_pci=(DEVICE.address,))
    await registrar(world).begin_session(C1, AGENT, said)
    held = [each.device for each in await world.cloud.cell(C1).devices.of(NEW)]
    assert held == [replace(DEVICE, live_migratable=True), other]
    await world.close()


async def test_what_operators_set_is_kept_at_each_start_of_the_agent() -> None:
    world = await World.build(cells={"c1": ("h1",)})
    hosts, register = world.cloud.cell(C1).hosts, registrar(world)
    await register.begin_session(C1, AGENT, description())
    await hosts.set_service(NEW, enabled=True, disabled_reason=None, forced_down=False)
    [aggregate] = [each for each in await world.cloud.aggregates.all() if NEW in each.hosts]
    await world.cloud.aggregates.remove_host(aggregate.id, NEW, 1.0)
    again = await register.begin_session(C1, AGENT, description(vcpus=4))
    assert (again.session, again.enabled, again.vcpus, await zone_name(world)) == (2, True, 4, None)
    await hosts.set_service(NEW, enabled=False, disabled_reason="broken fan", forced_down=False)
    third = await register.begin_session(C1, AGENT, description())
    assert (third.disabled_reason, await zone_name(world)) == ("broken fan", None)
    await world.close()


async def test_hosts_that_join_at_once_share_their_new_zone() -> None:
    world = await World.build(cells={"c1": ("h1",)})
    names = [HostName(f"n{number}") for number in range(5)]
    register = registrar(world)
    await asyncio.gather(*(register.begin_session(C1, AGENT, description(name)) for name in names))
    assert {await zone_name(world, name) for name in names} == {"north"}
    assert len([each for each in await world.cloud.aggregates.all() if each.name == "north"]) == 1
    await world.close()


async def test_a_host_is_in_one_cell() -> None:
    world = await World.build(cells={"c1": ("h1",), "c2": ("h2",)})
    register = registrar(world)
    await register.begin_session(C1, AGENT, description())
    with pytest.raises(Invalid, match="outside of that cell"):
        await register.begin_session(C2, AGENT, description())
    assert [host.name for host in await world.cloud.cell(C2).hosts.all()] == ["h2"]
    await world.close()


async def test_a_changed_description_is_registered_as_of_its_session() -> None:
    world = await World.build(cells={"c1": ("h1",)})
    register = registrar(world)
    for _ in range(2):
        await register.begin_session(C1, AGENT, description())
    with pytest.raises(Superseded):
        await register.describe(C1, 1, description(vcpus=2))
    await register.describe(C1, 2, description(vcpus=4, pci=(DEVICE,)))
    [provider] = [each for each in await world.cloud.placement.providers() if each.name == NEW]
    assert provider.capacity["VCPU"] == 4
    assert len(await world.cloud.cell(C1).devices.of(NEW)) == 1
    await register.describe(C1, 2, description())
    assert await world.cloud.cell(C1).devices.of(NEW) == []
    await world.close()


async def test_unchanged_hosts_are_not_written() -> None:
    world = await World.build(cells={"c1": ("h1",)})
    register, described = registrar(world), [description("a", answers=False), description("b", answers=False)]
    hosts = world.cloud.cell(C1).hosts
    await register.register_all(C1, described)
    before = hosts.changes
    await register.register_all(C1, described)
    assert hosts.changes == before
    found = description("b", resources={"CUSTOM_X": 1}, answers=False, hardware=Hardware(nics=()))
    for _ in range(2):
        await register.register_all(C1, [described[0], found])
        assert hosts.changes == before + 1
    stored = await hosts.descriptions()
    assert stored[HostName("b")].resources == {"CUSTOM_X": 1}
    assert {host.name: host.enabled for host in await hosts.all()} == {"h1": True, "a": True, "b": True}
    await world.close()


async def test_a_zone_is_that_of_the_cloud_unless_a_host_names_another() -> None:
    world = await World.build(cells={"c1": ("h1",)})
    default = world.cloud.rules.default_availability_zone
    await registrar(world).register_all(C1, [description("a"), description("b")])
    rows = {host.name: host for host in await world.cloud.cell(C1).hosts.all()}
    await put_into_zones(world.cloud, {HostName("a"): default, HostName("b"): "south"}, rows)
    assert (await zone_name(world, HostName("a")), await zone_name(world, HostName("b"))) == (None, "south")
    await world.close()
