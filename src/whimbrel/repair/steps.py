"""What a repair does, a line for each kind of thing. Each may be done again, and finds then that it is done."""

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import ConsumerId, HostName, ProjectId, ProviderId
from whimbrel.moves.steps.disk import PARCEL
from whimbrel.moves.steps.lease_check import check_in_hand
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.placement import Owner
from whimbrel.proof.evidence_reader import is_ended
from whimbrel.proof.invariants.guests import is_whole, stands_as_recorded
from whimbrel.repair.actions import Kind, Mend
from whimbrel.repair.facts import Repair, has_record
from whimbrel.servers import operation
from whimbrel.servers.allocations.allocation_repair import record_of
from whimbrel.servers.cleanup.late_effects import made_macs
from whimbrel.servers.zones import zone_changes

# The claim


async def release_claim(run: Repair, cloud: Cloud) -> None:
    await cloud.placement.release(run.order, ConsumerId(run.subject))


async def recount(run: Repair, cloud: Cloud) -> None:
    await cloud.placement.recount(run.order, ProviderId(run.subject))


async def tell_zone(run: Repair, cloud: Cloud) -> None:
    await zone_changes.mend(cloud, ProviderId(run.subject))


async def name_owner(run: Repair, cloud: Cloud) -> None:
    record = await record_of(run, cloud)
    await cloud.placement.name_owner(run.order, ConsumerId(run.subject), Owner(record.project_id, record.user_id))


# Records


async def enter_project(run: Repair, cloud: Cloud) -> None:
    for mend in _of(run, "enter_project"):
        await cloud.directory.enter_project(run.order, run.subject, ProjectId(mend.thing))


async def record_project(run: Repair, cloud: Cloud) -> None:
    store = operation.records(run, cloud) if has_record(run.facts) else cloud.directory
    for mend in _of(run, "record_project"):
        await store.change_by_run(run.order, run.subject, {"project_id": mend.thing})


async def adopt_record(run: Repair, cloud: Cloud) -> None:
    await cloud.directory.adopt(run.order, await operation.records(run, cloud).get(run.subject))


async def erase_copies(run: Repair, cloud: Cloud) -> None:
    for mend in _of(run, "erase_copy"):
        assert mend.cell, "a copy is in a cell"
        await cloud.cell(mend.cell).servers.erase(run.order, run.subject)
    if has_record(run.facts):
        await stand_alone(run, cloud)


async def stand_alone(run: Repair, cloud: Cloud) -> None:
    await operation.records(run, cloud).stand(run.order, run.subject, "whole")


async def adopt_guest(run: Repair, cloud: Cloud) -> None:
    """Have the record say where the only guest is, once that was seen there."""
    for mend in _of(run, "adopt_guest"):
        assert mend.cell
        assert mend.host
        assert mend.slot
        guest = await cloud.agent(mend.cell, mend.host).look(GuestKey(run.subject, mend.slot))
        if guest is None or not is_whole(guest):
            raise Refused(f"the guest on {mend.host} is not seen whole; the record stays as it is")
        zone = (await _zones(cloud)).get(mend.host)
        fields = {"host": mend.host, "slot": mend.slot, **({"zone": zone} if zone else {})}
        await operation.records(run, cloud).change_by_run(run.order, run.subject, fields)


async def _zones(cloud: Cloud) -> dict[HostName, str]:
    fleet = await cloud.fleets.now()
    return dict(zip(fleet.names, fleet.zones, strict=True))


async def book(run: Repair, cloud: Cloud) -> None:
    flavor = (await record_of(run, cloud)).flavor
    await cloud.directory.book(run.order, run.subject, flavor.vcpus, flavor.memory_mib)


# Guests


async def destroy_guests(run: Repair, cloud: Cloud) -> None:
    """Destroy guests that are too many, each time after a look at what proves it."""
    for mend in _of(run, "destroy_guest"):
        await _see_proof(run, mend, cloud)
        assert mend.cell
        assert mend.host
        assert mend.slot
        await cloud.agent(mend.cell, mend.host).destroy(run.order, GuestKey(run.subject, mend.slot))


async def _see_proof(run: Repair, mend: Mend, cloud: Cloud) -> None:
    """See that the server is deleted, or stands elsewhere as its record says. Raises: Refused: it is not so."""
    if not has_record(run.facts):
        if not await is_ended(cloud, run.subject):
            raise Refused(f"server {run.subject} is not deleted; nothing is destroyed")
        return
    record = await operation.records(run, cloud).get(run.subject)
    assert record.host
    assert record.slot
    key = GuestKey(record.id, record.slot)
    if (record.host, record.slot) == (mend.host, mend.slot):
        raise Refused("it is the guest that the record says; nothing is destroyed")
    guest = await cloud.agent(operation.cell_of(run), record.host).look(key)
    if guest is None or not stands_as_recorded(guest, record):
        raise Refused(f"its guest on {record.host} does not stand as its record says; nothing is destroyed")


async def release_devices(run: Repair, cloud: Cloud) -> None:
    for mend in _of(run, "release_devices"):
        assert mend.cell
        assert mend.host
        assert mend.slot
        await cloud.cell(mend.cell).devices.release(run.order, mend.host, GuestKey(run.subject, mend.slot))


# Services that know no epochs


async def bind_ports(run: Repair, cloud: Cloud) -> None:
    for mend in _of(run, "bind_port"):
        try:
            port = await cloud.network.port(mend.thing)
        except NotFound:
            continue  # its owner has deleted it
        await check_in_hand(run, cloud)
        assert mend.host
        if port.device_id == run.subject and port.host != mend.host:
            await cloud.network.bind(port, mend.host, {}, port.device_owner)


async def let_go_bindings(run: Repair, cloud: Cloud) -> None:
    for mend in _of(run, "let_go_binding"):
        assert mend.host
        try:
            there = await cloud.network.bindings(mend.thing)
        except NotFound:
            continue
        await check_in_hand(run, cloud)
        if any(binding.host == mend.host and not binding.is_active for binding in there):
            await cloud.network.delete_bindings([mend.thing], mend.host)


async def let_go_ports(run: Repair, cloud: Cloud) -> None:
    made = await made_macs(run.subject, cloud)
    for mend in _of(run, "let_go_port"):
        try:
            port = await cloud.network.port(mend.thing)
        except NotFound:
            continue
        await check_in_hand(run, cloud)
        if port.device_id != run.subject:
            continue
        if port.mac in made:
            await cloud.network.delete_port(port.id)
        else:
            await cloud.network.free_port(port.id, run.subject, port.revision)


async def detach_volumes(run: Repair, cloud: Cloud) -> None:
    for mend in _of(run, "detach"):
        await check_in_hand(run, cloud)
        await cloud.volumes.detach(mend.thing)


async def delete_images(run: Repair, cloud: Cloud) -> None:
    """Delete those that carry a disk of nobody's; one that waited for a file only if it has none by now."""
    for mend in _of(run, "delete_image"):
        try:
            image = await cloud.images.show(mend.thing)
        except NotFound:
            continue
        await check_in_hand(run, cloud)
        if image.status == "queued" or PARCEL in image.properties:
            await cloud.images.delete(mend.thing)


# Inside


def _of(run: Repair, kind: Kind) -> list[Mend]:
    facts = run.facts
    return facts.of_kind(kind)
