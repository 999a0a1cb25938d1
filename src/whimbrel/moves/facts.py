"""The facts of a move: written when it begins, extended by the steps that decide."""

from collections.abc import Iterable
from typing import Any, Self

import msgspec

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import DiskExport, DiskName, GuestKey, GuestSpec
from whimbrel.domain.ids import CellName, HostName, ProviderId, ServerId, Slot
from whimbrel.domain.run import Run, has_facts
from whimbrel.domain.server_devices import BlockDevice, Nic, RequestedNic, RequestedVolume
from whimbrel.ports.placement.placement import Owner
from whimbrel.ports.services.network import Port, PortRequest


class Location(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a guest is or will be."""

    cell: CellName
    host: HostName
    provider: ProviderId
    zone: str  # id
    slot: Slot
    parts: dict[ProviderId, dict[str, int]] = {}  # of a target: what is claimed there
    served: dict[str, ProviderId] = {}  # request of a port -> provider that serves it
    served_by: dict[str, str] = {}  # the same, with the providers' names


class ZoneRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The zone that a target must be in, and the preferred one: ids. because: part of a sentence for users."""

    zone: str | None = None
    preferred: str | None = None
    because: str = ""


class MovedPort(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A port of the server: its binding when the move began, and its requests to the host."""

    nic: Nic
    profile: dict[str, Any] = {}
    requests: tuple[PortRequest, ...] = ()
    same_subtree: tuple[str, ...] = ()
    has_groups: bool = False
    physnet: str | None = None  # vnic type direct only: the physical network of its network

    @classmethod
    def of(cls, nic: Nic, port: Port) -> Self:
        return cls(
            nic=nic,
            profile=port.profile,
            requests=port.requests,
            same_subtree=port.same_subtree,
            has_groups=port.has_groups,
        )


class MoveFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of a move. A create is a move without a source."""

    owner: Owner
    name: str
    image_id: str | None
    new_flavor: Flavor
    old_flavor: Flavor | None = None
    source: Location | None = None
    was: str = "active"  # vm_state before; a stopped server stays stopped
    launched_at: float | None = None  # before the move, for a revert
    zone_pin: str | None = None  # zones here are ids
    asked_zone: str | None = None  # requested target zone; overrides zone_pin
    leaves_cell: bool = False  # whether another cell is allowed
    leaves_zone: bool = False  # whether it may leave its zone and zone_pin
    # At the choice of the target. In the journal this field, requested_nics and requested_volumes keep former names.
    zone_request: ZoneRequest | None = msgspec.field(default=None, name="zone_wish")
    wanted_host: HostName | None = None
    same_host: bool = False  # whether the source may be the target
    target: Location | None = None
    alternates: tuple[Location, ...] = ()
    tried: tuple[HostName, ...] = ()
    export: DiskExport | None = None
    user_data: str | None = None
    has_local_root: bool = True  # False: boot from volume
    image_properties: dict[str, str] = {}
    hints: dict[str, Any] = {}  # os:scheduler_hints of the create request
    ports: tuple[MovedPort, ...] = ()
    volumes: tuple[BlockDevice, ...] = ()  # with the source's attachments
    target_attachments: dict[str, str] = {}  # volume id -> attachment for the target
    requested_nics: tuple[RequestedNic, ...] = msgspec.field(default=(), name="wished_nics")  # of a create
    requested_volumes: tuple[RequestedVolume, ...] = msgspec.field(default=(), name="wished_volumes")
    security_groups: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()  # of the ports that a create makes, parallel to requested_nics; "": port exists


Move = Run[MoveFacts]


def moves_of(runs: Iterable[Run]) -> list[Move]:
    return [run for run in runs if has_facts(run, MoveFacts)]


def source_of(move: Move) -> Location:
    assert move.facts.source, "a move from nowhere has no source"
    return move.facts.source


def target_of(move: Move) -> Location:
    assert move.facts.target, "claim before choice"
    return move.facts.target


def old_flavor_of(move: Move) -> Flavor:
    assert move.facts.old_flavor, "a move from nowhere has no old flavor"
    return move.facts.old_flavor


def key_at(move: Move, place: Location) -> GuestKey:
    return GuestKey(ServerId(move.subject), place.slot)


def target_spec(move: Move) -> GuestSpec:
    """Return the target guest's spec, without its devices."""
    facts = move.facts
    return GuestSpec(
        key=key_at(move, target_of(move)),
        name=facts.name,
        vcpus=facts.new_flavor.vcpus,
        memory_mib=facts.new_flavor.memory_mib,
        root_gib=facts.new_flavor.root_gib,
        image_id=facts.image_id,
        project_id=facts.owner.project,
        user_data=facts.user_data,
        has_local_root=facts.has_local_root,
        ephemeral_gib=facts.new_flavor.ephemeral_gib,
        swap_mib=facts.new_flavor.swap_mib,
    )


# Conditions of steps


def changes_size(facts: MoveFacts) -> bool:
    return facts.old_flavor is not None and facts.old_flavor != facts.new_flavor


def changes_host(facts: MoveFacts) -> bool:
    """Check whether the target is another host; for steps after the choice."""
    return facts.source is None or (facts.target is not None and facts.target.host != facts.source.host)


def crosses_cells(facts: MoveFacts) -> bool:
    """Check whether the target is in another cell; for steps after the choice."""
    return facts.source is not None and facts.target is not None and facts.target.cell != facts.source.cell


def has_ports(facts: MoveFacts) -> bool:
    return bool(facts.ports)


def moves_ports(facts: MoveFacts) -> bool:
    return has_ports(facts) and changes_host(facts)


def needs_disks(facts: MoveFacts) -> bool:
    return facts.has_local_root or bool(facts.new_flavor.ephemeral_gib or facts.new_flavor.swap_mib)


def carried_disks(facts: MoveFacts) -> tuple[DiskName, ...]:
    """Return the disks to copy. Swap is made anew, and so is an ephemeral disk if the old flavor had none."""
    root: tuple[DiskName, ...] = ("root",) if facts.has_local_root else ()
    return (*root, "ephemeral") if facts.old_flavor and facts.old_flavor.ephemeral_gib else root


def sends_disk(facts: MoveFacts) -> bool:
    """Check whether disks are sent through the image service: hosts of different cells cannot reach each other."""
    return bool(carried_disks(facts)) and crosses_cells(facts)


def has_volumes(facts: MoveFacts) -> bool:
    return bool(facts.volumes)


def moves_volumes(facts: MoveFacts) -> bool:
    """Check whether volumes are attached from another host; on the same host they stay attached."""
    return has_volumes(facts) and changes_host(facts)


def requests_nics(facts: MoveFacts) -> bool:
    return bool(facts.requested_nics)


def requests_volumes(facts: MoveFacts) -> bool:
    return bool(facts.requested_volumes)


def was_running(facts: MoveFacts) -> bool:
    return facts.was == "active"
