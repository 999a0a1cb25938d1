"""A cloud of simulated hosts in the state of a snapshot: its hosts, inventories, claims, servers, ports and volumes.

What was under way in the cloud counts as ended. Agents are of this release.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import Any
from zlib import crc32

import msgspec
from msgspec.structs import replace

from whimbrel.adapters.sql.global_.directory import SqlDirectory
from whimbrel.agent.agent import HostAgent
from whimbrel.domain import local_disks
from whimbrel.domain.errors import NotFound
from whimbrel.domain.guest import Capacity, DiskName, GuestKey, GuestSpec, Order, Power
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, GroupId, HostName, ProjectId, ProviderId, RunId, ServerId
from whimbrel.domain.live_policy import policy_of
from whimbrel.domain.maintenance_plan import MaintenanceItem
from whimbrel.domain.pci import HeldDevice, PciRequest
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import FixedIp
from whimbrel.maintenance.cloud_snapshot import MIB, CloudSnapshot, KnownClaim, KnownGuest, KnownProvider
from whimbrel.placement.inventory import capacity
from whimbrel.placement.provider import Claim
from whimbrel.ports.placement.placement import GroupRule
from whimbrel.ports.services.network import Port
from whimbrel.ports.services.volumes import Attachment, Volume
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.sim.cloud.cloud import Plan, Remains, World
from whimbrel.sim.maintenances.linked_hypervisor import Behaviour, LinkedHypervisor
from whimbrel.sim.maintenances.network_links import Links
from whimbrel.sim.maintenances.remembered_plan import PlanJournal, RememberedMaintenances
from whimbrel.sim.world.disks import Contents, Disk
from whimbrel.sim.world.guests import SimulatedGuest, path_of, with_disks
from whimbrel.sim.world.loop import LoopClock, SimulatedLoop
from whimbrel.sim.world.network import SimulatedNetwork
from whimbrel.sim.world.phases import Times
from whimbrel.sim.world.volumes import SimulatedVolumes

ALWAYS_UP = 1e12
LONG_S = 1e9
UNLIMITED = 2**40
MOST = 2**31 - 1
POWER: dict[str, Power] = {"active": "running", "paused": "paused", "suspended": "suspended", "rescued": "running"}
"""vm_state -> power of its guest; all others are stopped."""


class Assumed(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulation assumes. link_mib_s: of each host, in each direction, shared by its transfers.

    dirty_mib_s: what each running guest writes to its memory.
    """

    link_mib_s: float
    dirty_mib_s: float
    start_s: float
    stop_s: float


@dataclass
class KnownGroups:
    """Implements what moves read of ports.stores.server_groups.ServerGroups."""

    groups: Sequence[ServerGroup]

    def __post_init__(self) -> None:
        self._of = {server: replace(group, members=()) for group in self.groups for server in group.members}

    async def of_server(self, server_id: ServerId) -> ServerGroup | None:
        return self._of.get(server_id)

    async def get(self, group_id: GroupId) -> ServerGroup:
        for group in self.groups:
            if group.id == group_id:
                return group
        raise NotFound(f"Instance group {group_id} could not be found.")


class _NewDirectory(SqlDirectory):
    """Takes entries that no run has ordered."""

    def _check_epoch(self, order: Order, rows: Sequence[Any]) -> None:
        pass


class CopiedCloud(World):
    """Make it with `await CopiedCloud.of(...)`. Its hosts are `behaviour`'s."""

    def __init__(self, snapshot: CloudSnapshot, assumed: Assumed, remains: Remains) -> None:
        self.snapshot = snapshot
        self._hosts = {host.name: host for host in snapshot.hosts}
        self._providers = {provider.id: provider for provider in snapshot.providers}
        cells = {host.name: host.cell for host in snapshot.hosts}
        deadlines = {
            server.id: policy_of(snapshot.rules.live, server.project_id, server.flavor.extra_specs, {}).deadline_s
            for server in snapshot.servers
        }
        links = Links(assumed.link_mib_s * MIB, cells)
        self.behaviour = Behaviour(links, snapshot.guests, deadlines)
        of_cells: dict[str, list[str]] = {info.name: [] for info in snapshot.cells}
        for host in snapshot.hosts:
            of_cells[host.cell].append(host.name)
        rules = replace(snapshot.rules, lease_s=LONG_S)  # its one process does not die
        times = Times(start_s=assumed.start_s, stop_s=assumed.stop_s)
        super().__init__(Plan(cells=of_cells, rules=rules, times=times), remains)
        maintenances = RememberedMaintenances(remains.databases["global"])
        groups: Any = KnownGroups(snapshot.groups)
        journal = PlanJournal(remains.databases["global"], maintenances)
        self.cloud = with_fields(self.cloud, server_groups=groups, maintenances=maintenances, journal=journal)
        dirty = int(assumed.dirty_mib_s * MIB)
        self.simulated.dirty_rates = {server.id: dirty for server in snapshot.servers}

    @classmethod
    async def of(cls, snapshot: CloudSnapshot, assumed: Assumed, loop: SimulatedLoop) -> "CopiedCloud":
        """Return a copy of the cloud that runs in this loop and uses its time, with the plan of the maintenance."""
        remains = await Remains.new(crc32(snapshot.maintenance.id.encode()), [info.name for info in snapshot.cells])
        remains.clock = LoopClock(loop, snapshot.at)
        copied = cls(snapshot, assumed, remains)
        await copied._copy_hosts()
        await copied._copy_placement()
        await copied._copy_servers()
        _copy_network(remains.network, snapshot)
        await _bind(remains.network, snapshot.ports)
        _copy_volumes(remains.volumes, snapshot)
        await copied._copy_plan()
        return copied

    def _hypervisor(self, name: HostName, cell: CellName) -> LinkedHypervisor:
        remains = self.remains
        return LinkedHypervisor(
            self.behaviour,
            name,
            self.simulated,
            remains.store,
            self.plan.times,
            remains.clock,
            cell=cell,
            capacity=self._capacity(self._hosts[name]),
        )

    def _capacity(self, host: Host) -> Capacity:
        """Return what a host refuses by. Only simulated hosts refuse what Placement permits."""
        is_simulated = host.driver == "simulated"
        return Capacity(
            vcpus=host.vcpus,
            memory_mib=host.memory_mib if is_simulated else UNLIMITED,
            disk_gib=host.disk_gib if is_simulated else UNLIMITED,
            hypervisor_type=host.hypervisor_type,
            hypervisor_version=host.hypervisor_version,
            cpu_info=host.cpu_info if is_simulated else "{}",  # of others the scheduler knows the format
        )

    def _agent(self, host: HostName) -> HostAgent:
        remains = self.remains
        return HostAgent(host, self.hypervisors[host], remains.store, self.images, remains.clock, wait_s=LONG_S)

    # Copying

    async def _copy_hosts(self) -> None:
        snapshot, cloud = self.snapshot, self.cloud
        for zone in snapshot.zones:
            await cloud.zones.ensure(zone)
        for info in snapshot.cells:
            await cloud.cell_infos.add(info)
        for name, cell in cloud.cells.items():
            here = [host for host in snapshot.hosts if host.cell == name]
            up = [replace(host, seen_at=ALWAYS_UP) if host.is_up(snapshot.at) else host for host in here]
            await cell.hosts.register_all(up)
            await cell.hosts.tell({host.name: host.metrics for host in here if host.metrics})
            for host in here:
                await cell.devices.register(host.name, [one.device for one in snapshot.devices.get(host.name, ())])
        for aggregate in snapshot.aggregates:
            made = await cloud.aggregates.create(aggregate.name, aggregate.uuid, aggregate.metadata, snapshot.at)
            if aggregate.hosts:
                await cloud.aggregates.add_hosts(made.id, aggregate.hosts, snapshot.at)
        await self._hold_devices()

    async def _hold_devices(self) -> None:
        """Claim as many devices as guests hold, of the same kinds."""
        for name, devices in self.snapshot.devices.items():
            held = Counter((one.holder, _request_for(one)) for one in devices if one.holder and one.request)
            for (holder, request), count in held.items():
                assert holder, "it is held"
                store = self.cloud.cell(self._hosts[name].cell).devices
                await store.claim(self._order(), name, holder, [replace(request, count=count)])

    async def _copy_placement(self) -> None:
        snapshot, placement = self.snapshot, self.placement
        for trait in {trait for one in snapshot.providers for trait in one.traits if trait.startswith("CUSTOM_")}:
            await placement.create_trait(trait)
        for name in {name for one in snapshot.providers for name in one.inventories if name.startswith("CUSTOM_")}:
            await placement.create_resource_class(name)
        fuller = _overfull(snapshot.providers, snapshot.claims)
        for provider in snapshot.providers:
            await placement.create_provider(provider.id, provider.name, provider.parent)
            has = {name: replace(one, total=MOST) for name, one in provider.inventories.items()}
            await placement.set_inventories(provider.id, None, has if provider.id in fuller else provider.inventories)
            await placement.set_traits(provider.id, None, provider.traits)
        await placement.set_all_aggregates({one.id: one.aggregates for one in snapshot.providers if one.aggregates})
        known = {host.id for host in snapshot.hosts}
        await placement.zone_hosts({one.root: one.zone for one in snapshot.host_zones if one.root in known})
        await self._copy_claims()
        for provider in snapshot.providers:
            if provider.id in fuller:
                await placement.set_inventories(provider.id, None, provider.inventories)
            if provider.is_disabled:
                await placement.set_disabled(provider.id, True)

    async def _copy_claims(self) -> None:
        """Copy all claims; those of members of server groups also say where the members are."""
        groups = {server: group for group in self.snapshot.groups for server in group.members}
        roots = {server.id: self._hosts[server.host].id for server in self.snapshot.servers if server.host}
        others = []
        for claim in self.snapshot.claims:
            server = ServerId(claim.consumer)
            if server not in groups or server not in roots:
                others.append(Claim(consumer=claim.consumer, owner=claim.owner, held=claim.held))
                continue
            rule = GroupRule(group=groups[server].id, policy="soft-affinity", root=roots[server])
            await self.placement.claim(self._order(), claim.consumer, claim.owner, claim.held, rule)
        await self.placement.rewrite(others)

    async def _copy_servers(self) -> None:
        directory = _NewDirectory(self.remains.databases["global"])
        for server in self.snapshot.servers:
            assert server.cell, "it is on a host"
            order, records = self._order(), self.cloud.cell(server.cell).servers
            await records.insert(order, server)
            await records.unlock(order, server.id, {})
            await directory.adopt(order, server)
            guest = _guest_of(server, self.snapshot.guests.get(server.id, KnownGuest()))
            await self.remains.store.put(f"guests/{server.host}", path_of(guest.key), msgspec.json.encode(guest))

    async def _copy_plan(self) -> None:
        snapshot = self.snapshot
        items = [_to_do(item) for item in snapshot.items]
        failed = sum(item.state == "failed" for item in items)
        planned = replace(
            snapshot.maintenance, state="planned", has_disabled=False, message=None, failed_before=failed, version=1
        )
        await self.cloud.maintenances.add(planned, items)

    def _order(self) -> Order:
        return Order(RunId(self.remains.ids.uuid()), 1)


def _to_do(item: MaintenanceItem) -> MaintenanceItem:
    """Return an item with what is under way still to do."""
    if item.state not in ("planned", "moving"):
        return item
    return replace(item, state="planned", run_id=None, started_at=None, due_at=0.0)


def _overfull(providers: Iterable[KnownProvider], claims: Iterable[KnownClaim]) -> set[ProviderId]:
    """Return the providers of which more is used than they have."""
    used: dict[tuple[ProviderId, str], int] = {}
    for claim in claims:
        for provider, amounts in claim.held.items():
            for name, amount in amounts.items():
                used[provider, name] = used.get((provider, name), 0) + amount
    return {
        one.id
        for one in providers
        if any(used.get((one.id, name), 0) > capacity(has) for name, has in one.inventories.items())
    }


def _request_for(held: HeldDevice) -> PciRequest:
    assert held.request, "it is held"
    device = held.device
    return PciRequest(
        id=held.request,
        vendor_id=device.vendor_id,
        product_id=device.product_id,
        physnet=device.physnet,
        parent_ifname=device.parent_ifname,
        live_migratable=device.is_live_migratable or None,
    )


def _guest_of(server: Server, known: KnownGuest) -> SimulatedGuest:
    assert server.slot, "it is on a host"
    spec = GuestSpec(
        key=GuestKey(server.id, server.slot),
        name=server.name,
        vcpus=server.flavor.vcpus,
        memory_mib=server.flavor.memory_mib,
        root_gib=server.flavor.root_gib,
        image_id=server.image_id,
        project_id=ProjectId(server.project_id),
        has_local_root=server.has_local_root,
        ephemeral_gib=server.flavor.ephemeral_gib,
        swap_mib=server.flavor.swap_mib,
    )
    disks: dict[DiskName, Disk] = {
        name: Disk(Contents(f"image {server.image_id}"), known.disks.get(name, local_disks.size_bytes(spec, name)))
        for name in local_disks.names_of(spec)
    }
    made = SimulatedGuest(spec=spec, power=POWER.get(server.vm_state, "stopped"), memory="snapshot", cpu=known.cpu)
    return with_disks(made, disks)


# Other services


def _copy_network(network: SimulatedNetwork, snapshot: CloudSnapshot) -> None:
    for info in snapshot.networks:
        network.add_network(info, "10.0.0.0/8")
        for subnet, segment in snapshot.segments.get(info.id, {}).items():
            network.add_segment(info.id, subnet, segment)
    for port in snapshot.ports:
        addressed = replace(port, addresses=port.addresses or (FixedIp("0.0.0.0", ""),))
        network.add_port(addressed, port.requests, port.same_subtree, port.has_groups)


async def _bind(network: SimulatedNetwork, ports: Iterable[Port]) -> None:
    for port in ports:
        if port.host:
            await network.create_binding(port.id, HostName(port.host), port.vnic_type, port.profile)
            await network.activate_binding(port.id, HostName(port.host))


def _copy_volumes(volumes: SimulatedVolumes, snapshot: CloudSnapshot) -> None:
    """Attach the volumes of all servers. What no decision depends on is not in the snapshot."""
    known = {volume.id: volume for volume in snapshot.volumes}
    for server in snapshot.servers:
        for device in server.volumes:
            volume = known.get(device.volume_id) or Volume(
                id=device.volume_id, project_id=server.project_id, name="", status="in-use", size_gib=0, zone=""
            )
            volumes.add_volume(replace(volume, status="available", is_multiattach=True))
            volumes.add_attachment(
                Attachment(
                    id=device.attachment_id,
                    volume_id=device.volume_id,
                    server=server.id,
                    status="attached",
                    connection={"driver_volume_type": "simulated"},
                ),
                device.host,
            )
