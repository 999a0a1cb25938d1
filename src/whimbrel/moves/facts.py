"""The facts of a move: written when it begins, extended by the steps that decide."""

from collections.abc import Iterable
from typing import Any, Self

import msgspec

from whimbrel.domain.evidence import Evidence
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import DiskExport, DiskName, GuestKey, GuestSpec
from whimbrel.domain.guest_agent import has_agent, requires_quiesce
from whimbrel.domain.guest_hardware import NO_REQUESTS, DiskBus, Hardware
from whimbrel.domain.ids import CellName, HostName, ProviderId, ServerId, Slot
from whimbrel.domain.live_policy import LivePolicy
from whimbrel.domain.live_transfer import LiveGuest, TransferTarget
from whimbrel.domain.run import Run, has_facts
from whimbrel.domain.server_devices import BlockDevice, Nic, RequestedNic, RequestedVolume
from whimbrel.ports.placement.placement import Owner
from whimbrel.ports.services.network import Port, PortRequest
from whimbrel.scheduling.requirements.requested_hardware import hardware_of


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


class Home(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What remains of the location of a server that was shelved and offloaded: its record's cell, its last host."""

    cell: CellName
    host: HostName | None = None
    zone: str | None = None  # id


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


class LiveFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a live migration knows besides: requested, then learned step by step."""

    policy: LivePolicy = LivePolicy()
    block_migration: bool | None = None  # None: as its disks need it
    guest: LiveGuest | None = None  # as examined on the source
    ticket: int = 0  # its place in the queues of hosts and links; 0: none yet
    receiver: TransferTarget | None = None  # the slot that waits for the guest
    is_post_copy: bool = False  # at the switch-over


class MoveFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of a move. A create is a move without a source."""

    owner: Owner
    name: str
    image_id: str | None
    new_flavor: Flavor
    old_flavor: Flavor | None = None
    source: Location | None = None
    home: Home | None = None  # of a server without a host, which has no source
    shelved_images: dict[DiskName, str] = {}  # image of each local disk of a shelved server
    was: str = "active"  # vm_state before; a stopped server stays stopped
    launched_at: float | None = None  # before the move, for a revert
    zone_pin: str | None = None  # zones here are ids
    asked_zone: str | None = None  # requested target zone; overrides zone_pin
    leaves_cell: bool = False  # whether another cell is allowed
    leaves_zone: bool = False  # whether it may leave its zone and zone_pin
    # At the choice of the target. In the journal this field, requested_nics and requested_volumes keep former names.
    zone_request: ZoneRequest | None = msgspec.field(default=None, name="zone_wish")
    wanted_host: HostName | None = None
    forced: bool = False  # whether that host is taken also if the operator reserves or spares it
    same_host: bool = False  # whether the source may be the target
    target: Location | None = None
    alternates: tuple[Location, ...] = ()
    tried: tuple[HostName, ...] = ()
    choices: int = 0  # how often the target was chosen anew
    chooses_anew: bool = False  # whether the target is to be chosen anew
    export: DiskExport | None = None
    user_data: str | None = None
    has_local_root: bool = True  # False: boot from volume
    image_properties: dict[str, str] = {}
    shelved_variables: bytes = b""  # of the UEFI of a shelved server
    heeds_hardware: bool = False  # as of the server's record
    root_bus: DiskBus | None = None
    hints: dict[str, Any] = {}  # os:scheduler_hints of the create request
    ports: tuple[MovedPort, ...] = ()
    volumes: tuple[BlockDevice, ...] = ()  # with the source's attachments
    target_attachments: dict[str, str] = {}  # volume id -> attachment for the target
    requested_nics: tuple[RequestedNic, ...] = msgspec.field(default=(), name="wished_nics")  # of a create
    requested_volumes: tuple[RequestedVolume, ...] = msgspec.field(default=(), name="wished_volumes")
    security_groups: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()  # of the ports that a create makes, parallel to requested_nics; "": port exists
    live: LiveFacts | None = None  # of a live migration
    config_drive: bool = False
    changes: dict[str, Any] = {}  # fields of the record to set with success
    grant: str = ""  # of a create: of its user, until the volumes are made
    source_lost: Evidence | None = None  # on the way back: why nothing on the source is waited for; see lost_source


Move = Run[MoveFacts]


def moves_of(runs: Iterable[Run]) -> list[Move]:
    return [run for run in runs if has_facts(run, MoveFacts)]


def source_of(move: Move) -> Location:
    assert move.facts.source, "a create or an unshelve has no source"
    return move.facts.source


def home_of(move: Move) -> CellName:
    """Return the cell that has the server's record when the move begins."""
    home = move.facts.source or move.facts.home
    assert home, "a server without a record has no home"
    return home.cell


def target_of(move: Move) -> Location:
    assert move.facts.target, "claim before choice"
    return move.facts.target


def old_flavor_of(move: Move) -> Flavor:
    assert move.facts.old_flavor, "a create or an unshelve has no old flavor"
    return move.facts.old_flavor


def live_of(move: Move) -> LiveFacts:
    assert move.facts.live, "only live migrations ask"
    return move.facts.live


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
        guest_agent=has_agent(facts.image_properties),
        requires_quiesce=requires_quiesce(facts.image_properties),
        hardware=target_hardware(facts),
    )


def target_hardware(facts: MoveFacts) -> Hardware:
    """Return the hardware of the guest at the target. That of a running guest stays as it is."""
    if facts.live and facts.live.guest:
        return facts.live.guest.hardware
    if not facts.heeds_hardware:
        return NO_REQUESTS
    return hardware_of(facts.new_flavor, facts.image_properties, facts.root_bus)


def machine_of(facts: MoveFacts) -> str:
    """Return the type of machine that the target's hypervisor must know; "": any. A running guest keeps its own."""
    running = facts.live.guest.machine if facts.live and facts.live.guest else ""
    return running or target_hardware(facts).machine


# Conditions of steps


def changes_size(facts: MoveFacts) -> bool:
    return facts.old_flavor is not None and facts.old_flavor != facts.new_flavor


def changes_host(facts: MoveFacts) -> bool:
    """Check whether the target is another host; for steps after the choice."""
    return facts.source is None or (facts.target is not None and facts.target.host != facts.source.host)


def crosses_cells(facts: MoveFacts) -> bool:
    """Check whether the target is in another cell than the record; for steps after the choice."""
    home = facts.source or facts.home
    return home is not None and facts.target is not None and facts.target.cell != home.cell


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
    return facts.source is not None and bool(carried_disks(facts)) and crosses_cells(facts)


def has_volumes(facts: MoveFacts) -> bool:
    return bool(facts.volumes)


def moves_volumes(facts: MoveFacts) -> bool:
    """Check whether volumes are attached from another host; on the same host they stay attached."""
    return has_volumes(facts) and changes_host(facts)


def has_shelved_images(facts: MoveFacts) -> bool:
    return bool(facts.shelved_images)


def asks_for_hardware(facts: MoveFacts) -> bool:
    """Check whether the guest has hardware that only newer agents know."""
    named: list[BlockDevice | RequestedVolume] = [*facts.volumes, *facts.requested_volumes]
    return target_hardware(facts) != NO_REQUESTS or any(one.bus or one.device_type != "disk" for one in named)


def requests_nics(facts: MoveFacts) -> bool:
    return bool(facts.requested_nics)


def requests_volumes(facts: MoveFacts) -> bool:
    return bool(facts.requested_volumes)


def is_live(facts: MoveFacts) -> bool:
    return facts.live is not None


def is_post_copied(facts: MoveFacts) -> bool:
    """Check whether the guest runs at the target before all of it is there."""
    return facts.live is not None and facts.live.is_post_copy


def was_running(facts: MoveFacts) -> bool:
    return facts.was == "active"
