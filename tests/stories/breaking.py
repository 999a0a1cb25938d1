"""Inconsistencies made by hand: each names the violations that a proof finds, and the state after the repair."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import sqlalchemy as sa
from msgspec.structs import replace

from tests.broken_ports import held, hold, provider, say
from whimbrel.adapters.sql.tables.cell import pci_devices
from whimbrel.adapters.sql.tables.cell import servers as records
from whimbrel.adapters.sql.tables.global_ import directory
from whimbrel.adapters.sql.tables.placement import allocations, host_zones, inventories
from whimbrel.domain.guest import GuestKey, GuestSpec, Order
from whimbrel.domain.ids import HostName, ProjectId, RunId, ServerId, Slot
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice, RequestedNic
from whimbrel.moves.steps import volumes as attached
from whimbrel.moves.steps.disk import TRANSFER_IMAGE, transfer_images_of
from whimbrel.ports.placement.placement import Inventory
from whimbrel.ports.services.images import Image
from whimbrel.ports.services.network import NewPort, Port
from whimbrel.ports.services.volumes import Volume
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup
from whimbrel.servers.devices import interfaces, volumes
from whimbrel.servers.lifecycle import create, create_image, delete
from whimbrel.sim.cloud.cloud import IMAGE, PROJECT, World
from whimbrel.sim.world import equipment
from whimbrel.sim.world.equipment import with_a_function, with_devices

STRANGER = ServerId("99999999-9999-4999-8999-999999999999")
FREE_PORT = "66666666-6666-4666-8666-666666666669"
FREE_VOLUME = "77777777-7777-4777-8777-777777777779"
SWAP_TARGET = "77777777-7777-4777-8777-777777777780"
IN_SWAPS = frozenset({"attachments", "volumes", "migrations"})

Act = Callable[["Scene"], Awaitable[object]]


@dataclass
class Scene:
    """A cloud of two cells. rich: with ports, volumes and a device, on h1; plain: on h2; gone: deleted."""

    world: World
    rich: Server
    plain: Server
    gone: Server

    async def copy(self) -> "Scene":
        return Scene(await self.world.copy(), self.rich, self.plain, self.gone)


@dataclass(frozen=True)
class Break:
    """names: the kinds of violations. is_mended: else it is left, with a sentence.

    between: books that are neither wrong nor right in the middle of the repair.
    """

    name: str
    act: Act
    names: frozenset[str]
    is_mended: bool = True
    between: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name


async def scene() -> Scene:
    world = await World.build(cells={"c1": ("h1", "h2", "h3"), "c2": ("h4",)}, equipped=True, functions=True)
    network, storage = world.remains.network, world.remains.volumes
    network.add_port(Port(id=FREE_PORT, network_id=equipment.NETWORK, project_id=PROJECT, mac="fa:16:3e:00:00:09"))
    storage.add_volume(
        Volume(id=FREE_VOLUME, project_id=PROJECT, name="more", status="available", size_gib=1, zone="nova")
    )
    engine = world.engine("setup")
    device = with_a_function(world.new_server("x")).requested_nics
    rich = with_devices(world.new_server("rich"))
    rich = replace(rich, requested_nics=(*rich.requested_nics, *device))
    plain, gone = world.new_server("plain"), world.new_server("gone")
    for server, host in ((rich, "h1"), (plain, "h2"), (gone, "h2")):
        await create.accept(world.cloud, engine, world.requester(), [server], HostName(host))
        await world.settle(engine)
        await _named(world, server.id)
    await delete.accept(world.cloud, engine, world.requester(), await lookup.find(world.cloud, gone.id))
    await world.settle(engine)
    there = [await lookup.find(world.cloud, one.id) for one in (rich, plain)]
    assert [one.vm_state for one in there] == ["active", "active"]
    return Scene(world, *there, gone)


async def _named(world: World, server: ServerId) -> None:
    """Attach the free port and the free volume and detach them: what no run has named is nobody's but its maker's."""
    cloud, engine, requester = world.cloud, world.engine("setup"), world.requester()
    wanted = BlockDevice(id="bdm", volume_id=FREE_VOLUME, attachment_id="", host="", device="/dev/vdz")
    await interfaces.attach(cloud, engine, requester, await lookup.find(cloud, server), RequestedNic(port_id=FREE_PORT))
    await world.settle(engine)
    await volumes.attach(cloud, engine, requester, await lookup.find(cloud, server), wanted, at_once=True)
    await world.settle(engine)
    await interfaces.detach(cloud, engine, requester, await lookup.find(cloud, server), FREE_PORT)
    await world.settle(engine)
    record = await lookup.find(cloud, server)
    [device] = [one for one in record.volumes if one.volume_id == FREE_VOLUME]
    await volumes.detach(cloud, engine, requester, record, device)
    await world.settle(engine)


# Guests


def spec_of(server: Server, slot: str) -> GuestSpec:
    flavor = server.flavor
    return GuestSpec(
        key=GuestKey(server.id, Slot(slot)),
        name=server.name,
        vcpus=flavor.vcpus,
        memory_mib=flavor.memory_mib,
        root_gib=flavor.root_gib,
        image_id=IMAGE,
        project_id=server.project_id,
    )


async def make_guest(scene: Scene, server: Server, host: str, slot: str, *, runs: bool) -> None:
    hypervisor = scene.world.hypervisors[HostName(host)]
    spec = spec_of(server, slot)
    await hypervisor.reserve(spec)
    await hypervisor.create_disk(spec, lambda percent: None)
    await hypervisor.define(spec)
    if runs:
        await hypervisor.start(spec.key)
    scene.world.simulated.double_runs.clear()  # by hand it is no fault of ours


def guest(whose: str, host: str, slot: str = "by-hand", *, runs: bool) -> Act:
    async def act(scene: Scene) -> None:
        server = replace(scene.plain, id=STRANGER) if whose == "stranger" else getattr(scene, whose)
        await make_guest(scene, server, host, slot, runs=runs)

    return act


async def no_guest(scene: Scene) -> None:
    await destroyed(scene, scene.plain)


async def destroyed(scene: Scene, server: Server) -> None:
    """Make its guest gone from where its record says."""
    assert server.host
    assert server.slot
    await scene.world.hypervisors[server.host].destroy(GuestKey(server.id, server.slot))


async def moved_by_hand(scene: Scene) -> None:
    await no_guest(scene)
    await make_guest(scene, scene.plain, "h3", "by-hand", runs=True)


async def switched_off(scene: Scene) -> None:
    server = scene.plain
    assert server.host
    assert server.slot
    await scene.world.hypervisors[server.host].stop(GuestKey(server.id, server.slot), 0)


async def switched_off_and_started_elsewhere(scene: Scene) -> None:
    await switched_off(scene)
    await make_guest(scene, scene.plain, "h3", "by-hand", runs=True)


# Records


async def no_entry(scene: Scene) -> None:
    await run(scene, "global", sa.delete(directory).where(directory.c.server_id == scene.rich.id))


async def no_record(scene: Scene) -> None:
    await run(scene, "cell_c1", sa.delete(records).where(records.c.id == scene.rich.id))


async def a_copy(scene: Scene) -> None:
    order = Order(RunId(scene.world.cloud.ids.uuid()), 1)
    await scene.world.cloud.cells["c2"].servers.insert(order, replace(scene.plain, host=HostName("h4")))  # type: ignore[index]
    await run(scene, "cell_c2", sa.update(records).values(locked_by_run=None))


async def locked(scene: Scene) -> None:
    await _lock(scene, scene.plain)


async def no_entry_of_a_locked_one(scene: Scene) -> None:
    await no_entry(scene)
    await _lock(scene, scene.rich)


async def _lock(scene: Scene, server: Server) -> None:
    """Make a run that is over hold its lock."""
    [over] = await scene.world.cloud.journal.find(RunFilter(subject=server.id, limit=1))
    of_it = records.c.id == server.id
    await run(scene, "cell_c1", sa.update(records).where(of_it).values(locked_by_run=over.id))


async def record_shared(scene: Scene) -> None:
    of_it = records.c.id == scene.plain.id
    await run(scene, "cell_c1", sa.update(records).where(of_it).values(standing="shared"))


async def no_host(scene: Scene) -> None:
    assert scene.plain.cell
    await scene.world.cloud.cell(scene.plain.cell).hosts.delete(HostName("h2"))


async def wrong_quota_usage(scene: Scene) -> None:
    of_it = directory.c.server_id == scene.plain.id
    await run(scene, "global", sa.update(directory).where(of_it).values(vcpus=7))


async def listed_elsewhere(scene: Scene) -> None:
    of_it = records.c.id == scene.plain.id
    await run(scene, "cell_c1", sa.update(records).where(of_it).values(host="h3", vm_state="stopped"))


async def run(scene: Scene, database: str, statement: sa.Executable) -> None:
    async with scene.world.remains.databases[database].write() as tx:
        await tx.run(statement)


# Claims


async def nothing_held(scene: Scene) -> None:
    await hold(scene.world, scene.rich.id, {})


async def claims_deleted(scene: Scene) -> None:
    """As in SQL at night: what is said to be used stays, and so does the consumer."""
    await run(scene, "placement", sa.delete(allocations).where(allocations.c.consumer == scene.rich.id))


async def miscounted(scene: Scene) -> None:
    this = await provider(scene.world, "h3")
    wrong = sa.update(inventories).where(inventories.c.provider == this, inventories.c.resource_class == "VCPU")
    await run(scene, "placement", wrong.values(used=1))


async def twice_held(scene: Scene) -> None:
    now = await held(scene.world, scene.rich.id)
    await hold(scene.world, scene.rich.id, {one: {k: 2 * n for k, n in part.items()} for one, part in now.items()})


async def held_of_two_hosts(scene: Scene) -> None:
    now = await held(scene.world, scene.plain.id)
    await hold(scene.world, scene.plain.id, {**now, await provider(scene.world, "h3"): {"VCPU": 1}})


def held_by(whose: str) -> Act:
    async def act(scene: Scene) -> None:
        consumer = STRANGER if whose == "stranger" else scene.gone.id
        if whose == "run":
            [first] = await scene.world.cloud.journal.find(RunFilter(subject=scene.plain.id, limit=1))
            consumer = ServerId(first.id)
        await hold(scene.world, consumer, {await provider(scene.world, "h3"): {"VCPU": 1}})

    return act


async def too_little_room(scene: Scene) -> None:
    root = await provider(scene.world, "h1")
    await scene.world.placement.set_inventories(root, None, {"VCPU": Inventory(total=4, reserved=4)} | {
        name: Inventory(total=40960) for name in ("MEMORY_MB", "DISK_GB")
    })  # fmt: skip


async def inventory_lost(scene: Scene) -> None:
    """As with a tool that does not look after keys: what is held refers to nothing any more."""
    database = scene.world.remains.databases["placement"]
    this = await provider(scene.world, "h2")
    database._write_sql("PRAGMA foreign_keys = OFF")  # type: ignore[attr-defined]
    await run(scene, "placement", sa.delete(inventories).where(inventories.c.provider == this))
    database._write_sql("PRAGMA foreign_keys = ON")  # type: ignore[attr-defined]


# Ports


async def bound_twice(scene: Scene) -> None:
    port = scene.rich.nics[0].port_id
    await scene.world.remains.network.create_binding(port, HostName("h3"), "normal", {})


async def bound_elsewhere(scene: Scene) -> None:
    network = scene.world.remains.network
    port = await network.port(scene.rich.nics[1].port_id)  # one that asks for nothing
    assert not port.requests
    await network.bind(port, HostName("h3"), {}, port.device_owner)


async def bound_nowhere(scene: Scene) -> None:
    scene.world.remains.network._bindings[scene.rich.nics[1].port_id] = {}


def port_of(whose: str) -> Act:
    async def act(scene: Scene) -> None:
        server: Server = getattr(scene, whose)
        await scene.world.remains.network.take_port(FREE_PORT, server.id, "compute:nova")

    return act


async def port_lost(scene: Scene) -> None:
    await scene.world.remains.network.delete_port(scene.rich.nics[1].port_id)


async def unserved(scene: Scene) -> None:
    await say(scene.world, scene.rich.nics[0].port_id, {})


async def port_of_another_service(scene: Scene) -> None:
    """It says that it is of a server that was never ours."""
    await scene.world.remains.network.create_port(
        NewPort(network_id=equipment.NETWORK, project_id=ProjectId("other"), server=STRANGER,
                device_owner="compute:elsewhere", mac="fa:16:3e:00:00:10")
    )  # fmt: skip


# Volumes, devices, images


def kept_for(whose: str) -> Act:
    async def act(scene: Scene) -> None:
        server: Server = getattr(scene, whose)
        await scene.world.remains.volumes.reserve(server.id, FREE_VOLUME, ())

    return act


async def kept_again(scene: Scene) -> None:
    """Make one of its volumes kept for it a second time, as a move does that is on its way."""
    device = scene.rich.volumes[0]
    await scene.world.remains.volumes.reserve(scene.rich.id, device.volume_id, [device.attachment_id])


async def swap_cut_off(scene: Scene) -> BlockDevice:
    """Migrate one of its volumes to another one, which is connected too. Return the device by that one."""
    storage = scene.world.remains.volumes
    device = next(one for one in scene.rich.volumes if one.volume_id == equipment.VOLUME)
    storage.begin_migration(device.volume_id, SWAP_TARGET)
    made = await storage.reserve(scene.rich.id, SWAP_TARGET, ())
    await storage.connect(made.id, {"host": device.host})
    return replace(device, volume_id=SWAP_TARGET, attachment_id=made.id)


async def swap_cut_off_in_guest(scene: Scene) -> None:
    world, key = scene.world, GuestKey(scene.rich.id, Slot(scene.rich.slot or ""))
    [new] = await attached.guest_volumes([await swap_cut_off(scene)], world.cloud)
    await world.hypervisors[HostName("h1")].swap_volume(key, equipment.VOLUME, new, lambda percent: None)


async def attachment_lost(scene: Scene) -> None:
    await scene.world.remains.volumes.detach(scene.rich.volumes[0].attachment_id)


async def device_held(scene: Scene) -> None:
    """Make a guest that is not there hold a device."""
    free = sa.update(pci_devices).where(pci_devices.c.server_id.is_(None), pci_devices.c.host == "h3")
    await run(scene, "cell_c1", free.values(server_id=scene.plain.id, slot="by-hand", request="x"))


async def transfer_image_left(scene: Scene) -> None:
    [first] = await scene.world.cloud.journal.find(RunFilter(subject=scene.plain.id, sagas=("create",)))
    [[transfer_image]] = transfer_images_of(first).values()
    await _image(scene, {TRANSFER_IMAGE: first.id}, transfer_image)


async def snapshot_left(scene: Scene) -> None:
    """Make the image of a snapshot lose its file: it waits for ever."""
    world, engine = scene.world, scene.world.engine("setup")
    server = await lookup.find(world.cloud, scene.plain.id)
    image = await create_image.accept(world.cloud, engine, world.requester(), server, "s", {})
    await world.settle(engine)
    await world.cloud.images.delete(image)
    await _image(scene, {}, image)


async def _image(scene: Scene, properties: dict[str, str], image_id: str) -> None:
    await scene.world.cloud.images.create(
        Image(id=image_id, name="left", status="queued", disk_format="raw", size_bytes=0, checksum=None,
              properties=properties)
    )  # fmt: skip


# Hosts


async def host_in_another_zone(scene: Scene) -> None:
    aggregates = scene.world.cloud.aggregates
    east = await aggregates.create("east", "uuid-east", {"availability_zone": "east"}, 1.0)
    assert scene.plain.host
    await aggregates.add_host(east.id, scene.plain.host, 1.0)


async def told_of_another_zone(scene: Scene) -> None:
    this = await provider(scene.world, "h2")
    await run(scene, "placement", sa.insert(host_zones).values(root=this, zone="east", version=1))


# Runs


async def stands_still(scene: Scene) -> None:
    world = scene.world
    engine = world.engine("setup", adopt=lambda run: True)  # and does not drive it
    new = world.new_server("stuck")
    await create.accept(world.cloud, engine, world.requester(), [new])
    [run] = await world.cloud.journal.find(RunFilter(subject=new.id))
    await world.cloud.journal.save(replace(run, problem="a bug", owner=None, due_at=1e15))


def _break(name: str, act: Act, *names: str, is_mended: bool = True, between: frozenset[str] = frozenset()) -> Break:
    return Break(name, act, frozenset(names), is_mended, between)


MENDED = (
    _break("a guest was started twice", guest("plain", "h3", runs=True), "runs_twice", "stray_guest"),
    _break("a stopped guest was left on another host", guest("plain", "h3", runs=False), "stray_guest"),
    _break("a second guest was left on its host", guest("plain", "h2", runs=False), "stray_guest"),
    _break("a guest of a deleted server runs", guest("gone", "h3", runs=True), "stray_guest"),
    _break("nothing is held for a server", nothing_held, "missing_claim"),
    _break("the rows of a claim were deleted", claims_deleted, "missing_claim", "miscounted"),
    _break("less is left of a host than is free", miscounted, "miscounted"),
    _break("everything is held twice", twice_held, "wrong_claim"),
    _break("a server holds something of another host", held_of_two_hosts, "wrong_claim"),
    _break("a stranger holds something", held_by("stranger"), "leaked_claim"),
    _break("a deleted server holds something", held_by("gone"), "leaked_claim"),
    _break("a run that is over holds something", held_by("run"), "leaked_claim"),
    _break("the directory lost a row", no_entry, "no_entry"),
    _break("the directory lost the row of a locked server", no_entry_of_a_locked_one, "no_entry"),
    _break("a cell has a copy of a record", a_copy, "stray_record"),
    _break("a run that is over locks a server", locked, "leaked_lock"),
    _break("a record stands as if there were a copy", record_shared, "stray_standing"),
    _break("lists find a server where it is not", listed_elsewhere, "columns_differ"),
    _break("a server counts for too much", wrong_quota_usage, "wrong_booking"),
    _break("a port is bound to another host too", bound_twice, "stray_binding"),
    _break("a port is bound to another host", bound_elsewhere, "port_elsewhere"),
    _break("a port is bound nowhere", bound_nowhere, "unbound_port"),
    _break("a server has a port that it does not know", port_of("plain"), "stray_port"),
    _break("a deleted server has a port", port_of("gone"), "port_of_nobody"),
    _break("a server has a volume that it does not know", kept_for("plain"), "stray_attachment"),
    _break("a volume is kept twice for its server", kept_again, "stray_attachment"),
    _break("a deleted server has a volume", kept_for("gone"), "attachment_of_nobody"),
    _break("a device is held for a guest that is not there", device_held, "leaked_device"),
    _break("the disk of a move lies in the image service", transfer_image_left, "leaked_image"),
    _break("Placement was told another zone of a host", told_of_another_zone, "zone_mistold"),
    _break("an image waits for a snapshot that is over", snapshot_left, "leaked_image"),
)
"""Afterwards all is as it was before."""

ADOPTED = _break("a guest was moved by hand", moved_by_hand, "missing_guest", "stray_guest")

CUT_OFF = (
    _break("a swap of volumes was cut off", swap_cut_off, "unended_swap", between=IN_SWAPS),
    _break("a swap of volumes was cut off in the guest", swap_cut_off_in_guest, "unended_swap", between=IN_SWAPS),
)
"""Afterwards the volume service has ended what a restore cut off, by what the guest uses."""

LEFT = (
    _break("a guest of a stranger runs", guest("stranger", "h3", runs=True), "stray_guest", is_mended=False),
    _break("a guest is gone", no_guest, "missing_guest", is_mended=False),
    _break("a guest was switched off", switched_off, "guest_differs", is_mended=False),
    _break("another guest runs instead", switched_off_and_started_elsewhere, "guest_differs", "stray_guest",
           is_mended=False),
    _break("a cell lost a record", no_record, "no_record", is_mended=False),
    _break("a host is not known any more", no_host, "no_host", is_mended=False),
    _break("a port is gone", port_lost, "lost_port", is_mended=False),
    _break("a port does not say who serves it", unserved, "wrong_claim", is_mended=False),
    _break("an attachment is gone", attachment_lost, "lost_attachment", is_mended=False),
    _break("a host went to another zone under a server", host_in_another_zone, "zone_differs", is_mended=False),
    _break("a provider has less than is held", too_little_room, "over_capacity", is_mended=False),
    _break("what is held of a host is not in its inventory", inventory_lost, "not_offered", is_mended=False),
    _break("a run met a bug", stands_still, "stands_still", is_mended=False),
)  # fmt: skip
