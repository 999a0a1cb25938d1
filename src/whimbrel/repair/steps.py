"""The steps of a repair, one for each kind of action. Each is idempotent."""

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import ConsumerId, HostName, ProviderId
from whimbrel.moves.steps.disk import TRANSFER_IMAGE
from whimbrel.moves.steps.lease_check import check_epoch
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.placement import Owner
from whimbrel.proof.evidence_reader import is_ended
from whimbrel.proof.invariants.guests import stands_as_recorded
from whimbrel.repair import actions
from whimbrel.repair.facts import Repair, has_record
from whimbrel.repair.record_steps import check_whole
from whimbrel.servers import operation
from whimbrel.servers.allocations.allocation_repair import claim_as_before, record_of
from whimbrel.servers.cleanup.late_effects import made_macs
from whimbrel.servers.zones import zone_changes

# Claims


async def claim_back(run: Repair, cloud: Cloud) -> None:
    """Restore the former claim, unless the record already names the host of its guest, or is deleted."""
    try:
        record = await record_of(run, cloud)
    except NotFound:
        return
    found = [*run.facts.of_kind(actions.AdoptGuest), *run.facts.of_kind(actions.SettleRecord)]
    if record.host not in [action.host for action in found]:
        await claim_as_before(run, cloud)


async def release_claim(run: Repair, cloud: Cloud) -> None:
    await cloud.placement.release(run.order, ConsumerId(run.subject))


async def recount(run: Repair, cloud: Cloud) -> None:
    await cloud.placement.recount(run.order, ProviderId(run.subject))


async def tell_zone(run: Repair, cloud: Cloud) -> None:
    await zone_changes.repair(cloud, ProviderId(run.subject))


async def name_owner(run: Repair, cloud: Cloud) -> None:
    record = await record_of(run, cloud)
    await cloud.placement.name_owner(run.order, ConsumerId(run.subject), Owner(record.project_id, record.user_id))


# Records


async def enter_project(run: Repair, cloud: Cloud) -> None:
    for action in run.facts.of_kind(actions.EnterProject):
        await cloud.directory.enter_project(run.order, run.subject, action.project)


async def record_project(run: Repair, cloud: Cloud) -> None:
    store = operation.records(run, cloud) if has_record(run.facts) else cloud.directory
    for action in run.facts.of_kind(actions.RecordProject):
        await store.change_by_run(run.order, run.subject, {"project_id": action.project})


async def adopt_record(run: Repair, cloud: Cloud) -> None:
    await cloud.directory.adopt(run.order, await operation.records(run, cloud).get(run.subject))


async def erase_copies(run: Repair, cloud: Cloud) -> None:
    for action in run.facts.of_kind(actions.EraseCopy):
        await cloud.cell(action.cell).servers.erase(run.order, run.subject)
    if has_record(run.facts):
        await stand_alone(run, cloud)


async def stand_alone(run: Repair, cloud: Cloud) -> None:
    await operation.records(run, cloud).stand(run.order, run.subject, "whole")


async def adopt_guest(run: Repair, cloud: Cloud) -> None:
    """Set the location in the record to that of the only guest. Raises: Refused: the guest is not whole there."""
    for action in run.facts.of_kind(actions.AdoptGuest):
        await check_whole(action.cell, action.host, action.key(run.subject), cloud)
        zone = (await _zones(cloud)).get(action.host)
        fields = {"host": action.host, "slot": action.slot, **({"zone": zone} if zone else {})}
        await operation.records(run, cloud).change_by_run(run.order, run.subject, fields)


async def _zones(cloud: Cloud) -> dict[HostName, str]:
    fleet = await cloud.fleets.now()
    return dict(zip(fleet.names, fleet.zones, strict=True))


async def book(run: Repair, cloud: Cloud) -> None:
    await cloud.directory.book(run.order, run.subject, *(await record_of(run, cloud)).counted)


# Guests


async def destroy_guests(run: Repair, cloud: Cloud) -> None:
    """Destroy orphan guests, each after a check of the proof."""
    for action in run.facts.of_kind(actions.DestroyGuest):
        await _see_proof(run, action, cloud)
        await cloud.agent(action.cell, action.host).destroy(run.order, action.key(run.subject))


async def _see_proof(run: Repair, action: actions.DestroyGuest, cloud: Cloud) -> None:
    """Check that the server is deleted, or its own guest is as recorded. Raises: Refused: neither is so."""
    if not has_record(run.facts):
        if not await is_ended(cloud, run.subject):
            raise Refused(f"server {run.subject} is not deleted; nothing is destroyed")
        return
    record = await operation.records(run, cloud).get(run.subject)
    assert record.host
    assert record.slot
    if (record.host, record.slot) == (action.host, action.slot):
        raise Refused("it is the guest of the record; nothing is destroyed")
    guest = await cloud.agent(operation.cell_of(run), record.host).look(GuestKey(record.id, record.slot))
    if guest is None or not stands_as_recorded(guest, record):
        raise Refused(f"its guest on {record.host} is not as recorded; nothing is destroyed")


async def release_devices(run: Repair, cloud: Cloud) -> None:
    for action in run.facts.of_kind(actions.ReleaseDevices):
        await cloud.cell(action.cell).devices.release(run.order, action.host, action.key(run.subject))


# Services without epochs


async def bind_ports(run: Repair, cloud: Cloud) -> None:
    for action in run.facts.of_kind(actions.BindPort):
        try:
            port = await cloud.network.port(action.port_id)
        except NotFound:
            continue  # its owner has deleted it
        await check_epoch(run, cloud)
        if port.device_id == run.subject and not (port.host == action.host and port.is_connected):
            await cloud.network.bind(port, action.host, {}, port.device_owner)


async def let_go_bindings(run: Repair, cloud: Cloud) -> None:
    for action in run.facts.of_kind(actions.DeleteBinding):
        try:
            there = await cloud.network.bindings(action.port_id)
        except NotFound:
            continue
        await check_epoch(run, cloud)
        if any(binding.host == action.host and not binding.is_active for binding in there):
            await cloud.network.delete_bindings([action.port_id], action.host)


async def let_go_ports(run: Repair, cloud: Cloud) -> None:
    made = await made_macs(run.subject, cloud)
    for action in run.facts.of_kind(actions.ReleasePort):
        try:
            port = await cloud.network.port(action.port_id)
        except NotFound:
            continue
        await check_epoch(run, cloud)
        if port.device_id != run.subject:
            continue
        if port.mac in made:
            await cloud.network.delete_port(port.id)
        else:
            await cloud.network.free_port(port.id, run.subject, port.revision)


async def detach_volumes(run: Repair, cloud: Cloud) -> None:
    for action in run.facts.of_kind(actions.DetachVolume):
        await check_epoch(run, cloud)
        await cloud.volumes.detach(action.attachment_id)


async def delete_images(run: Repair, cloud: Cloud) -> None:
    """Delete transfer images of no move, and images that still wait for their file."""
    for action in run.facts.of_kind(actions.DeleteImage):
        try:
            image = await cloud.images.show(action.image_id)
        except NotFound:
            continue
        await check_epoch(run, cloud)
        if image.status == "queued" or TRANSFER_IMAGE in image.properties:
            await cloud.images.delete(image.id)
