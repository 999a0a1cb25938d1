"""Rebuild: the guest's disks are made anew from an image, in a second slot on its host.

Invariant: the old guest and its disks are kept until the new guest has started; a failed rebuild leaves guest and
record as if it had never begun. Ports, volumes and PCI devices stay; nothing is claimed. But a root volume cannot be
kept beside its new content: after a failure from `reimage_root` on, the server is off and in error.
"""

from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from whimbrel.domain import server_states
from whimbrel.domain.errors import Refused, WrongState
from whimbrel.domain.ids import ServerId, Slot
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves import needs
from whimbrel.moves.facts import MoveFacts, asks_for_hardware, key_at, needs_disks, source_of, target_of
from whimbrel.moves.loose_volumes import check_connected
from whimbrel.moves.opening import new_action, new_run
from whimbrel.moves.requests import facts_of
from whimbrel.moves.steps import disk, guest, record, root_volume, volumes
from whimbrel.moves.steps.home_cell import home_record
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step

REBUILDABLE = ("active", "stopped", "error")


class RebuildFacts(MoveFacts, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of a rebuild: a move to another slot of the same host, with the new image and user data."""

    old_image_id: str | None = None
    old_image_properties: dict[str, str] = msgspec.field(default_factory=dict)
    ran: bool = False  # whether the old guest ran: the record of a server in error does not say
    is_lost: bool = False  # whether there was no whole old guest, so that there is nothing to restore
    root_image_id: str | None = None  # image that replaces the content of the root volume
    is_root_at_risk: bool = False  # whether the image may have been written into the root volume


class RootImage(NamedTuple):
    """The image that replaces the content of a root volume. former: the image that the volume was made of, if known."""

    id: str
    former: str | None


Rebuild = Run[RebuildFacts]


async def lock_rebuilding(move: Rebuild, cloud: Cloud) -> None:
    """Raises: WrongState: the server is not as it was at the request."""
    await record.lock_for("rebuilding", move, cloud)


async def choose_slot(move: Rebuild, cloud: Cloud) -> RebuildFacts:
    """Choose the new guest's slot, on the same host. Raises: Refused: the host must not run the new image."""
    facts, source = move.facts, source_of(move)
    # As in Nova, an unchanged image is not checked again, unless the guest gets the hardware that it names only now.
    image_id = facts.root_image_id or facts.image_id
    with_image = replace(facts, image_id=image_id)
    is_new = image_id != facts.old_image_id or (
        asks_for_hardware(facts) and not (await home_record(move, cloud)).heeds_hardware
    )
    if is_new and (reason := await needs.reason_against_image(with_image, facts.old_image_properties, cloud)):
        raise Refused(f"No valid host was found: the server stays on {source.host}, and {reason}.")
    old = await guest.agent_at(cloud, source).look(key_at(move, source))
    attached = await needs.with_attached(facts, ServerId(move.subject), cloud)
    return replace(
        facts,
        target=replace(source, slot=Slot(move.id)),
        ports=attached.ports,
        volumes=attached.volumes,
        ran=old is not None and old.power == "running",
        is_lost=old is None or not old.has_disk or old.power == "reserved",
    )


async def abandon_new(move: Rebuild, cloud: Cloud) -> None:
    await guest.abandon_target(_restorable(move), cloud)


async def start_old(move: Rebuild, cloud: Cloud) -> None:
    """Start the old guest if it ran; it stays off if its root volume may have other content now, or is in error."""
    facts = move.facts
    if facts.is_lost:
        return
    record = await home_record(move, cloud)
    if any(map(root_volume.is_loose, record.volumes)):
        await guest.stop_on_source(move, cloud)
        return
    runs = (facts.was == "active" or facts.ran) and not facts.is_root_at_risk
    await guest.start_on_source(_powered(move, runs=runs), cloud)


async def risk_root(move: Rebuild, cloud: Cloud) -> RebuildFacts:
    """Record that the content of the root volume may be lost from here on."""
    return replace(move.facts, is_root_at_risk=True)


async def reimage_root(move: Rebuild, cloud: Cloud) -> None:
    """Replace the content of the root volume. Raises: Refused: the volume service could not, or would not."""
    image_id = move.facts.root_image_id
    assert image_id, "only a root volume is made anew"
    await root_volume.write_root(image_id, move, cloud)


async def let_writing_end(move: Rebuild, cloud: Cloud) -> None:
    """Wait until no image is written into the root volume: nothing can stop that."""
    await root_volume.wait_for_root(move, cloud)


async def hand_devices(move: Rebuild, cloud: Cloud) -> None:
    """Assign the PCI devices of the old guest, which is off, to the new one."""
    source, target = source_of(move), target_of(move)
    devices = cloud.cell(source.cell).devices
    await devices.hand(move.order, source.host, key_at(move, source), key_at(move, target))


async def return_devices(move: Rebuild, cloud: Cloud) -> None:
    source, target = source_of(move), target_of(move)
    devices = cloud.cell(source.cell).devices
    await devices.hand(move.order, source.host, key_at(move, target), key_at(move, source))


async def start_new(move: Rebuild, cloud: Cloud) -> None:
    """Define the new guest with the devices of the old one and start it; a stopped server stays stopped."""
    await guest.start_on_target(_powered(move, runs=move.facts.was != "stopped"), cloud)


async def destroy_new(move: Rebuild, cloud: Cloud) -> None:
    await guest.destroy_on_target(_restorable(move), cloud)


async def switch_guest(move: Rebuild, cloud: Cloud) -> None:
    """Write the new guest and the requested changes into the record. This row is the commit point."""
    now = cloud.clock.now()
    fields = {**move.facts.changes, "slot": target_of(move).slot, "launched_at": now, "updated_at": now, "fault": None}
    if renews_root(move.facts):
        fields["volumes"] = volumes.devices_at_target(move.facts)
    await cloud.cell(source_of(move).cell).servers.change_by_run(move.order, move.subject, fields)


async def unlock_unchanged(move: Rebuild, cloud: Cloud) -> None:
    """Unlock the server in its vm_state before; in error if its root volume may have other content now."""
    facts, now = move.facts, cloud.clock.now()
    if not facts.is_root_at_risk:
        await record.unlock(move, cloud)
        return
    message = move.message or "the root volume could not be made anew"
    fault = {"code": 500, "message": message, "created": now}
    fields = {"vm_state": "error", "fault": fault, "updated_at": now}
    await cloud.cell(source_of(move).cell).servers.unlock(move.order, move.subject, fields)


async def unlock_rebuilt(move: Rebuild, cloud: Cloud) -> None:
    fields = {"vm_state": server_states.after(move.facts.was, "rebuilt"), "updated_at": cloud.clock.now()}
    await cloud.cell(source_of(move).cell).servers.unlock(move.order, move.subject, fields)


def _powered(move: Rebuild, *, runs: bool) -> Rebuild:
    """Return the move with the power state that its guest shall have: that of a server in error is in no record."""
    return replace(move, facts=replace(move.facts, was="active" if runs else "stopped"))


def renews_root(facts: RebuildFacts) -> bool:
    """Check whether the root volume gets a new attachment: it is made anew, or is reserved only."""
    root = root_volume.root_of(facts)
    return root is not None and (reimages_root(facts) or root_volume.is_loose(root))


def reimages_root(facts: RebuildFacts) -> bool:
    return facts.root_image_id is not None


def _restorable(move: Rebuild) -> Rebuild:
    """Return the move as one from nowhere if its old guest was lost: the steps then do not ask for that."""
    return replace(move, facts=replace(move.facts, source=None)) if move.facts.is_lost else move


_EVENT = "compute_rebuild_instance"

REBUILD: Saga[RebuildFacts] = Saga(
    "rebuild",
    1,
    RebuildFacts,
    undoable=(
        Step(lock_rebuilding, undo=unlock_unchanged, in_request=True, after=(guest.stop_on_source,)),
        Step(choose_slot, event="conductor_rebuild_server", passive=True),  # only decides
        Step(guest.prepare_target, undo=abandon_new, event=_EVENT, after=(start_new,)),
        Step(disk.build_disk, only_if=needs_disks, event=_EVENT),  # the old guest still runs; abandon_new removes it
        Step(root_volume.reserve_root, undo=root_volume.release_root, only_if=renews_root, event=_EVENT,
             after=(root_volume.free_root,)),  # above stop_on_source: it may refuse
        # The guest is down from here until start_new.
        Step(guest.stop_on_source, undo=start_old, event=_EVENT, shows="rebuild_spawning",
             after=(start_new, hand_devices, root_volume.free_root)),  # never two guests: first the new one is gone
        Step(hand_devices, undo=return_devices, only_if=needs.wants_pci, event=_EVENT, after=(start_new,)),
        Step(root_volume.free_root, undo=root_volume.return_root, only_if=renews_root, event=_EVENT,
             shows="rebuild_block_device_mapping", after=(start_new, reimage_root)),
        Step(risk_root, only_if=reimages_root, passive=True),
        Step(reimage_root, undo=let_writing_end, only_if=reimages_root, event=_EVENT, waits=True, after=(start_new,)),
        Step(volumes.connect_target, only_if=renews_root, event=_EVENT),  # return_root connects it for the old guest
        Step(start_new, undo=destroy_new, event=_EVENT, shows="rebuild_spawning"),
        Step(volumes.complete_target, only_if=renews_root, event=_EVENT),
    ),
    forward_only=(
        Step(switch_guest, event=_EVENT),  # the commit point: one row names its guest and its image
        Step(guest.destroy_on_source, event=_EVENT),
        Step(unlock_rebuilt, event=_EVENT),
    ),
    secrets=("changes.admin_pass",),
)  # fmt: skip


def check(server: Server, properties: dict[str, str]) -> None:
    """Check the properties of the new image. Raises: Invalid: they ask for what a rebuild cannot change."""
    needs.check_new_image(server.flavor, server.image_properties, properties, local_root=server.has_local_root)


async def accept(
    cloud: Cloud,
    engine: Engine,
    requester: Requester,
    server: Server,
    changes: dict[str, Any],
    note: str | None = None,
    root_image: RootImage | None = None,
) -> None:
    """Rebuild a server. changes: fields of its record; those of the new image are `image_id` and `image_properties`.

    note: for its history. root_image: replaces the content of its root volume; None: that stays as it is.
    Raises: WrongState; Conflict; Invalid; Unavailable.
    """
    if server.vm_state not in REBUILDABLE:
        raise WrongState(f"Cannot 'rebuild' instance {server.id} while it is in vm_state {server.vm_state}")
    await check_connected(cloud, server)
    before, record_then = await facts_of(cloud, server), replace(server, **changes)
    facts = RebuildFacts(
        **{name: getattr(before, name) for name in before.__struct_fields__},
        old_image_id=root_image.former if root_image else server.image_id,
        old_image_properties=server.image_properties,
        root_image_id=root_image.id if root_image else None,
    )
    facts = replace(
        facts,
        changes=changes,
        image_id=record_then.image_id,
        image_properties=record_then.image_properties,
        heeds_hardware=record_then.heeds_hardware,
        user_data=record_then.user_data,
        name=record_then.name,
        config_drive=record_then.config_drive,
    )
    check(server, facts.image_properties)
    needs.check(facts, cloud)
    run = new_run(cloud, engine, requester, server, REBUILD, facts)
    action = replace(new_action(cloud, requester, server, "rebuild", run.id), message=note)
    run = await engine.accept(run, action)
    await engine.begin(run)
