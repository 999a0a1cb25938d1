"""What a move knows: written at the start, added to by steps that decide."""

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
    zone: str  # its id
    slot: Slot
    parts: dict[ProviderId, dict[str, int]] = {}  # what is claimed there, of a target
    served: dict[str, ProviderId] = {}  # by which provider each request of a port is served
    served_by: dict[str, str] = {}  # the same providers' names


class ZoneRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which zone a target must be in, and which it had better be in: ids. because: part of a sentence for people."""

    zone: str | None = None
    preferred: str | None = None
    because: str = ""


class MovedPort(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A port of the server: how it was bound when this began, and what it asks of the host that it is bound to."""

    nic: Nic
    profile: dict[str, Any] = {}
    requests: tuple[PortRequest, ...] = ()
    same_subtree: tuple[str, ...] = ()
    has_groups: bool = False
    physnet: str | None = None  # of a port of vnic type direct: the physical network of its network

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
    """Facts of a move. A create is a move from nowhere: it has no source."""

    owner: Owner
    name: str
    image_id: str | None
    new_flavor: Flavor
    old_flavor: Flavor | None = None
    source: Location | None = None
    was: str = "active"  # vm_state before; a stopped server arrives stopped
    launched_at: float | None = None  # before, so that a revert restores it
    zone_pin: str | None = None  # zones here are ids
    asked_zone: str | None = None  # the zone that the server is to be moved to, whatever it is pinned to
    leaves_cell: bool = False  # whether it may go to a host of another cell
    leaves_zone: bool = False  # whether it may leave its zone, and the one that it is pinned to
    # As it was when the target was chosen. The journal keeps this field and the next two under their former names.
    zone_request: ZoneRequest | None = msgspec.field(default=None, name="zone_wish")
    wanted_host: HostName | None = None
    same_host: bool = False  # whether the source may be the target
    target: Location | None = None
    alternates: tuple[Location, ...] = ()
    tried: tuple[HostName, ...] = ()
    export: DiskExport | None = None
    user_data: str | None = None
    has_local_root: bool = True  # False: it boots from a volume
    image_properties: dict[str, str] = {}
    hints: dict[str, Any] = {}  # os:scheduler_hints of its create
    ports: tuple[MovedPort, ...] = ()
    volumes: tuple[BlockDevice, ...] = ()  # with the attachments of the source
    target_attachments: dict[str, str] = {}  # volume id -> attachment for the target
    requested_nics: tuple[RequestedNic, ...] = msgspec.field(default=(), name="wished_nics")  # of a create
    requested_volumes: tuple[RequestedVolume, ...] = msgspec.field(default=(), name="wished_volumes")
    security_groups: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()  # of the ports that a create makes, by place among the requested nics; "": it is there


Move = Run[MoveFacts]


def moves_of(runs: Iterable[Run]) -> list[Move]:
    """Return those of some runs that are moves. A create is one."""
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
    """Give what the guest on the target is made of."""
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


# Conditions of lines


def changes_size(facts: MoveFacts) -> bool:
    return facts.old_flavor is not None and facts.old_flavor != facts.new_flavor


def changes_host(facts: MoveFacts) -> bool:
    """Tell whether the target is another host; asked of lines below the choice."""
    return facts.source is None or (facts.target is not None and facts.target.host != facts.source.host)


def crosses_cells(facts: MoveFacts) -> bool:
    """Tell whether the target is in another cell; asked of lines below the choice."""
    return facts.source is not None and facts.target is not None and facts.target.cell != facts.source.cell


def has_ports(facts: MoveFacts) -> bool:
    return bool(facts.ports)


def moves_ports(facts: MoveFacts) -> bool:
    return has_ports(facts) and changes_host(facts)


def needs_disks(facts: MoveFacts) -> bool:
    """Tell whether the target needs disks of its own."""
    return facts.has_local_root or bool(facts.new_flavor.ephemeral_gib or facts.new_flavor.swap_mib)


def carried_disks(facts: MoveFacts) -> tuple[DiskName, ...]:
    """List the disks with contents that go along. Swap is made anew; an ephemeral disk too, where there was none."""
    root: tuple[DiskName, ...] = ("root",) if facts.has_local_root else ()
    return (*root, "ephemeral") if facts.old_flavor and facts.old_flavor.ephemeral_gib else root


def sends_disk(facts: MoveFacts) -> bool:
    """Tell whether disks go by the image service: hosts of two cells do not reach each other."""
    return bool(carried_disks(facts)) and crosses_cells(facts)


def has_volumes(facts: MoveFacts) -> bool:
    return bool(facts.volumes)


def moves_volumes(facts: MoveFacts) -> bool:
    """Tell whether volumes are to be used from another host; where it stays the same they stay attached."""
    return has_volumes(facts) and changes_host(facts)


def requests_nics(facts: MoveFacts) -> bool:
    return bool(facts.requested_nics)


def requests_volumes(facts: MoveFacts) -> bool:
    return bool(facts.requested_volumes)


def was_running(facts: MoveFacts) -> bool:
    return facts.was == "active"
