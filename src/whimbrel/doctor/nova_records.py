"""What the databases of Nova and Placement say about one server, and about the fleet. Times are seconds since 1970."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import msgspec

ENDED = ("confirmed", "reverted", "error", "failed", "completed", "cancelled", "done")
"""Statuses of migrations that nothing continues."""
OF_PORTS = "NET_"
"""Beginning of the resource classes that ports ask for."""
SWAP = "swap_volume"
"""The action by which a host copies a volume that Cinder migrates: the server has no task state meanwhile."""


class Owner(msgspec.Struct, frozen=True):
    """Ids of a project and a user, as quotas count for them. None: not recorded."""

    project: str | None = None
    user: str | None = None


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `instances` in one cell. hidden: the copy of a server that is moved to another cell."""

    cell: str
    uuid: str
    name: str
    host: str | None
    node: str | None
    vm_state: str | None
    task_state: str | None
    vcpus: int
    memory_mb: int
    flavor_id: int | None
    is_hidden: bool
    is_deleted: bool
    is_launched: bool
    boots_from_volume: bool
    touched: float
    owner: Owner = Owner()

    @property
    def is_worked_on(self) -> bool:
        """Check whether an operation goes on. A create and a delete clear the task state before their end."""
        return self.task_state is not None or self.vm_state in ("building", "deleted")


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `migrations` in one cell."""

    cell: str
    uuid: str
    server: str
    type: str
    status: str
    source: str | None
    source_node: str | None
    target: str | None
    target_node: str | None
    crosses_cells: bool
    is_hidden: bool
    is_deleted: bool
    touched: float

    def has_evacuated(self, server: Instance) -> bool:
        """Check whether this is an evacuation that came as far as the target: its source must destroy its guest."""
        return self.type == "evacuation" and (server.cell, server.host) == (self.cell, self.target)

    def may_run_on(self, server: Instance) -> str | None:
        """Return the target if the guest may run there though the server is not recorded there; None: it does not.

        A live migration moves the guest, and an evacuation makes one, before the record changes. One that is accepted
        has not come to the target: Source: ComputeManager.rebuild_instance, whose claim writes the next status.
        """
        moves = self.type == "live-migration" or (self.type == "evacuation" and self.status != "accepted")
        return self.target if moves and self.target != server.host else None

    @property
    def is_open(self) -> bool:
        return self.status not in ENDED and not self.is_deleted


class CellMapping(msgspec.Struct, frozen=True):
    """A row of `instance_mappings`. cell: None: none, or one that is not known.

    is_queued_for_delete: None: from before Nova recorded it; quotas do not count such a server by its mapping.
    """

    cell: str | None
    is_queued_for_delete: bool | None
    touched: float
    owner: Owner = Owner()


class Spec(msgspec.Struct, frozen=True):
    """A request spec. zone: the one that the server is pinned to. flavor_id: the number of the row. flavor: its id."""

    zone: str | None
    flavor_id: int | None
    flavor: str | None = None


class Allocation(msgspec.Struct, frozen=True, order=True):
    """A row of `allocations`. root: of the provider's tree: a compute node's uuid, or a shared provider."""

    root: str
    provider: str
    resource_class: str
    used: int

    @property
    def of_port(self) -> bool:
        """Check whether it is bandwidth, or packets, that a port asks for."""
        return self.resource_class.startswith(OF_PORTS)


class Allocations(msgspec.Struct, frozen=True):
    """What a consumer holds in Placement. generation: None: there is no record of the consumer."""

    generation: int | None
    rows: Sequence[Allocation]
    touched: float
    owner: Owner = Owner()


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """The last action of a server, with the last of its events. open_event: one that began and did not end."""

    name: str
    request_id: str
    open_event: str | None
    open_host: str | None
    last_event: str | None
    touched: float


class Device(msgspec.Struct, frozen=True):
    """A PCI device that is claimed or allocated."""

    cell: str
    node_id: int
    host: str | None
    address: str
    type: str
    status: str
    server: str | None
    parent: str | None
    touched: float


class VolumeUse(msgspec.Struct, frozen=True):
    """A row of `block_device_mapping` that names a volume. is_root: the server boots from it.

    was_connected: a host has used it, and the guest may still: only an attach that never came so far can be forgotten.
    """

    cell: str
    server: str
    volume: str
    attachment: str | None
    touched: float
    is_root: bool = False
    was_connected: bool = False


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A server group. members: those that are alive and visible."""

    uuid: str
    name: str
    policy: str
    max_per_host: int
    members: Sequence[Instance]


class Subject(msgspec.Struct, kw_only=True):
    """An id, and everything that is recorded under it: a server, a migration, or neither.

    instances: one for each cell that has a live row. deleted: rows of deleted servers, only read where none is visible.
    migrations: of this server, without those that ended. held_by: what these and `ended` hold.
    migration: the migration with this id, if the id is not a server's; of: its server, if that is alive, rather than
    a hidden copy of it.
    """

    id: str
    instances: list[Instance] = []
    deleted: list[Instance] = []
    mappings: list[CellMapping] = []
    spec: Spec | None = None
    build_request: float | None = None  # since when there is one
    held: Allocations | None = None
    consumer_left: float | None = None  # when a consumer that holds nothing was written
    migrations: list[Migration] = []
    held_by: dict[str, Allocations] = {}
    ended: list[Migration] = []  # those that hold something, of a server with a task state
    evacuations: list[Migration] = []  # ended or not, of a server that holds several hosts
    migration: list[Migration] = []
    of: Instance | None = None
    action: Action | None = None
    resources_of_flavor: Mapping[str, str] | None = None  # its extra specs; None: not read

    @property
    def visible(self) -> list[Instance]:
        return [each for each in self.instances if not each.is_hidden]

    @property
    def server(self) -> Instance | None:
        """Return its only visible row, if there is exactly one."""
        seen = self.visible
        return seen[0] if len(seen) == 1 else None

    @property
    def name(self) -> str:
        """Return the name of the server; "": no cell has it."""
        rows = [self.server] if self.server else self.instances
        return rows[0].name if rows else ""

    @property
    def is_known(self) -> bool:
        """Check whether Nova has a trace of it. Without one it was purged, or is newer than a restored database."""
        return bool(self.instances or self.deleted or self.mappings)

    @property
    def open_migrations(self) -> list[Migration]:
        """Return those in the server's cell. Those beside a copy in another cell never end: they go with the copy."""
        server = self.server
        return [
            each for each in self.migrations
            if each.is_open and not each.is_hidden and (server is None or each.cell == server.cell)
        ]  # fmt: skip

    @property
    def awaits_verdict(self) -> list[Migration]:
        """Return the migrations of a resized server that a confirmation, or a delete of the server, would end."""
        is_resized = self.server is not None and self.server.vm_state == "resized"
        return [each for each in self.open_migrations if is_resized and each.status in ("finished", "confirming")]

    @property
    def waits_between_cells(self) -> bool:
        """Check whether the server waits for the verdict on a move from another cell, or for that to be carried out."""
        waits = self.server is not None and self.server.vm_state == "resized"
        return waits and any(each.crosses_cells for each in self.open_migrations)

    @property
    def touched(self) -> float:
        """Return when something about it was last written."""
        times = [each.touched for each in (*self.instances, *self.deleted)]
        times += [each.touched for each in (*self.migrations, *self.migration, *self.evacuations, *self.ended)]
        times += [each.touched for each in self.mappings]
        times += [each.touched for each in self.held_by.values()]
        if self.held:
            times.append(self.held.touched)
        if self.action:
            times.append(self.action.touched)
        if self.of:
            times.append(self.of.touched)
        return max([*times, self.build_request or 0.0, self.consumer_left or 0.0], default=0.0)


class Node(msgspec.Struct, frozen=True):
    """A compute node; its uuid is that of its root provider."""

    cell: str
    id: int
    uuid: str
    host: str
    name: str

    @property
    def is_ironic(self) -> bool:
        """Check whether it is a node of Ironic, which moves from host to host. Source: IronicDriver._node_resource."""
        return self.name.lower() == self.uuid


class LostProvider(msgspec.Struct, frozen=True, kw_only=True):
    """The root provider of a compute node that is gone. below: the uuids of its tree, children before parents.

    holders: consumers that hold something of the tree. namesake: the compute node that has its name now.
    """

    uuid: str
    name: str
    below: Sequence[str]
    holders: Sequence[str]
    namesake: Node | None
    touched: float


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """What is read once in a look. cells: uuids by name. seen: when the nova-compute of (cell, host) last wrote.

    zones: of hosts that are in one.
    """

    cells: Mapping[str, str]
    nodes: Sequence[Node]
    seen: Mapping[tuple[str, str], float]
    zones: Mapping[str, str]
    default_zone: str = "nova"

    @cached_property
    def _by_uuid(self) -> dict[str, Node]:
        return {node.uuid: node for node in self.nodes}

    @cached_property
    def _by_place(self) -> dict[tuple[str, str, str], Node]:
        return {(node.cell, node.host, node.name): node for node in self.nodes}

    def node(self, uuid: str) -> Node | None:
        return self._by_uuid.get(uuid)

    def node_of(self, server: Instance) -> Node | None:
        return self._by_place.get((server.cell, server.host or "", server.node or ""))

    @cached_property
    def _hosts_of_nodes(self) -> dict[tuple[str, str], dict[str, bool]]:
        found: dict[tuple[str, str], dict[str, bool]] = {}
        for node in self.nodes:
            found.setdefault((node.cell, node.name), {})[node.host] = node.is_ironic
        return found

    def hosts_of_node(self, cell: str, name: str | None) -> Mapping[str, bool]:
        """Return the hosts of a cell that have a compute node of this name, and whether it is one of Ironic."""
        return self._hosts_of_nodes.get((cell, name or ""), {})

    def roots(self, held: Allocations | None) -> list[Node]:
        """Return the compute nodes that a consumer holds something of, by name."""
        found = {row.root for row in held.rows} if held else set()
        return sorted((node for root in found if (node := self.node(root))), key=lambda node: node.name)


class NovaRecords(Protocol):
    """One look: consistent within each database, not between them."""

    fleet: Fleet

    def count(self) -> int:
        """Return the number of instance mappings."""

    def all(self) -> Iterator[Sequence[Subject]]:
        """Yield every id that is a server, or holds something, in pieces."""

    def some(self, ids: Sequence[str]) -> Sequence[Subject]:
        """Return these."""

    def devices(self) -> Sequence[tuple[Device, Subject | None]]:
        """Return the devices that are claimed or allocated, each with its server. None: no such server is alive."""

    def lost_providers(self) -> Sequence[LostProvider]:
        """Return the providers of compute nodes that are gone."""

    def groups(self) -> Iterator[Group]:
        """Yield the server groups with a policy that must be followed, and more than one server."""

    def volume_uses(self) -> Iterator[tuple[VolumeUse, bool]]:
        """Return attachments of servers that are gone (False), and those that several servers share (True)."""

    def volume_mappings(self) -> Iterator[VolumeUse]:
        """Yield the attachments of all live servers."""

    def uses_of_volumes(self, volumes: Sequence[str]) -> Iterator[VolumeUse]:
        """Yield the attachments of these volumes, also of servers that are gone."""

    def uses_of_servers(self, servers: Sequence[str]) -> Iterator[VolumeUse]:
        """Yield the attachments of these servers."""

    def volume_work(self, server: Instance) -> Action | None:
        """Return the last attach, detach or swap of a volume of a server."""

    def bandwidth_holders(self) -> Sequence[str]:
        """Return the ids of consumers that hold bandwidth or packets of ports."""

    def servers_on(self, host: str) -> Iterator[Sequence[str]]:
        """Yield the ids of live, visible servers whose host is this one, in pieces."""
