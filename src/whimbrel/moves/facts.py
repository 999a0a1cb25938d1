"""What a move knows: written at the start, added to by steps that decide."""

import msgspec

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import DiskExport, GuestKey, GuestSpec
from whimbrel.domain.ids import CellName, HostName, ProviderId, ServerId, Slot
from whimbrel.domain.run import Run
from whimbrel.ports.placement import Owner
from whimbrel.scheduling.snapshot import Considered


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a guest is or will be."""

    cell: CellName
    host: HostName
    provider: ProviderId
    zone: str
    slot: Slot


class MoveFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of a move. A create is a move from nowhere: it has no source."""

    owner: Owner
    name: str
    image_id: str | None
    new_flavor: Flavor
    old_flavor: Flavor | None = None
    source: Place | None = None
    was: str = "active"  # vm_state before; a stopped server arrives stopped
    launched_at: float | None = None  # before, so that a revert restores it
    zone_pin: str | None = None
    wanted_host: HostName | None = None
    same_host: bool = False  # whether the source may be the target
    target: Place | None = None
    alternates: tuple[Place, ...] = ()
    tried: tuple[HostName, ...] = ()
    considered: tuple[Considered, ...] = ()  # of the scheduler, at most CONSIDERED_KEPT
    export: DiskExport | None = None
    user_data: str | None = None


CONSIDERED_KEPT = 50

Move = Run
"""A run whose facts are MoveFacts."""


def source_of(move: Move) -> Place:
    source: Place | None = move.facts.source
    assert source, "a move from nowhere has no source"
    return source


def target_of(move: Move) -> Place:
    target: Place | None = move.facts.target
    assert target, "claim before choice"
    return target


def key_at(move: Move, place: Place) -> GuestKey:
    return GuestKey(ServerId(move.subject), place.slot)


def target_spec(move: Move) -> GuestSpec:
    """Give what the guest on the target is made of."""
    facts: MoveFacts = move.facts
    return GuestSpec(
        key=key_at(move, target_of(move)),
        name=facts.name,
        vcpus=facts.new_flavor.vcpus,
        memory_mib=facts.new_flavor.memory_mib,
        root_gib=facts.new_flavor.root_gib,
        image_id=facts.image_id,
        project_id=facts.owner.project,
        user_data=facts.user_data,
    )


# Conditions of lines


def changes_size(facts: MoveFacts) -> bool:
    return facts.old_flavor is not None and facts.old_flavor != facts.new_flavor


def was_running(facts: MoveFacts) -> bool:
    return facts.was == "active"
