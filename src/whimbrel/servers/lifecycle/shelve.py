"""Shelve: keep a stopped server as images of its disks; offload: free its host.

A shelved server keeps its ports and volumes. Invariant: its guest is destroyed only when all its images were seen
active in the same step, and from the first step that cannot be undone its record names them.
"""

from collections.abc import Iterator
from functools import partial

from whimbrel.domain import server_states
from whimbrel.domain.errors import Superseded, Unavailable
from whimbrel.domain.guest import DiskName
from whimbrel.domain.operation_facts import (
    Operation,
    OperationFacts,
    has_shelved_images,
    offloads,
    offloads_devices,
)
from whimbrel.domain.server import NOT_SHELVED, Server
from whimbrel.moves.loose_volumes import check_connected
from whimbrel.moves.steps import claims, guest, ports, shelved_images, volumes
from whimbrel.moves.steps.disk import finished
from whimbrel.moves.steps.shelved_images import SERVER, SHELVED_BY
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.services.images import Image
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.scheduling.requirements.requested_hardware import hardware_of
from whimbrel.servers import operation
from whimbrel.servers.lifecycle import power
from whimbrel.servers.lifecycle.delete import release_devices

SHELVABLE = ("active", "paused", "suspended", "stopped")

# Shelve


async def register_images(run: Operation, cloud: Cloud) -> None:
    for disk, image_id in run.facts.shelved_images.items():
        await cloud.images.create(_image(run, disk, image_id))
    # The image service knows no epochs: a delayed process may get here after the undo.
    if (await cloud.journal.get(run.id)).way == "back":
        await withdraw_images(run, cloud)
        raise Superseded(f"run {run.id} was turned back meanwhile")


async def withdraw_images(run: Operation, cloud: Cloud) -> None:
    """Delete the images of a shelve that is undone, once its guest was seen whole."""
    seen = await operation.agent(run, cloud).look(operation.key(run))
    if seen is None or not seen.has_disk:
        raise Unavailable(f"its guest is not seen whole on {run.facts.host}; no image is deleted")
    await delete_images(run, cloud)


async def delete_images(run: Operation, cloud: Cloud) -> None:
    await shelved_images.delete(run.facts.shelved_images, cloud)


async def upload_images(run: Operation, cloud: Cloud) -> None:
    agent, key = operation.agent(run, cloud), operation.key(run)
    for disk, image_id in run.facts.shelved_images.items():
        await finished(partial(agent.upload_snapshot, run.order, key, image_id, disk))


async def mark_shelved(run: Operation, cloud: Cloud) -> None:
    """Name the images in the record: from here on the server is restored from them, or started where it is."""
    facts, now = run.facts, cloud.clock.now()
    record = await operation.records(run, cloud).get(run.subject)
    variables = await _variables(run, record, cloud)
    fields = {
        "vm_state": server_states.after(facts.was, "shelved"),
        "task_state": "shelving_offloading" if facts.offloads else facts.shows,
        "shelved_at": now,
        "shelved_host": facts.host,
        "shelved_images": facts.shelved_images,
        **({"shelved_variables": variables} if variables else {}),
        "updated_at": now,
    }
    await operation.records(run, cloud).change_by_run(run.order, run.subject, fields)


async def _variables(run: Operation, record: Server, cloud: Cloud) -> bytes:
    """Return the variables of UEFI of the guest, which is off."""
    if not record.heeds_hardware or hardware_of(record.flavor, record.image_properties).firmware != "uefi":
        return b""
    return await operation.agent(run, cloud).firmware_variables(operation.key(run))


def _image(run: Operation, disk: DiskName, image_id: str) -> Image:
    facts = run.facts
    return Image(
        id=image_id,
        name=facts.image_name if disk == "root" else f"{facts.image_name}-{disk}",
        status="queued",
        disk_format="qcow2",
        size_bytes=0,
        checksum=None,
        owner=facts.image_owner,
        properties={SHELVED_BY: run.id, SERVER: run.subject, "image_type": "snapshot"},
    )


# Offload


async def check_images(run: Operation, cloud: Cloud) -> None:
    """Raises: Refused: an image is not there or not whole: the server stays on its host."""
    await shelved_images.check(run.facts.shelved_images, cloud)


async def destroy_shelved(run: Operation, cloud: Cloud) -> None:
    """Destroy the guest and its disks, once all images were seen active."""
    await shelved_images.see(run.facts.shelved_images, cloud)
    await guest.destroy_at(operation.cell_of(run), operation.host_of(run), run.order, operation.key(run), cloud)


async def unbind_ports(run: Operation, cloud: Cloud) -> None:
    """Bind the ports to no host. They stay the server's."""
    record = await operation.records(run, cloud).get(run.subject)
    await ports.unbind_all(run, {nic.port_id for nic in record.nics}, cloud)


async def reserve_volumes(run: Operation, cloud: Cloud) -> None:
    """Keep each volume by an attachment without a host, and delete the host's."""
    records = operation.records(run, cloud)
    record = await records.get(run.subject)
    if not record.volumes:
        return
    await volumes.reserve_all(run, record.volumes, records, cloud)


async def settle_shelved(run: Operation, cloud: Cloud) -> None:
    now = cloud.clock.now()
    nowhere = {"vm_state": server_states.after("shelved", "offloaded"), "host": None, "slot": None}
    fields = {**(nowhere if run.facts.offloads else {}), "updated_at": now}
    await operation.records(run, cloud).unlock(run.order, run.subject, fields)


_EVENT, _OFFLOAD_EVENT = "compute_shelve_instance", "compute_shelve_offload_instance"

_OFFLOAD: tuple[Step[OperationFacts], ...] = (
    Step(destroy_shelved, only_if=offloads, event=_OFFLOAD_EVENT),
    Step(unbind_ports, only_if=offloads_devices, event=_OFFLOAD_EVENT),
    Step(reserve_volumes, only_if=offloads_devices, event=_OFFLOAD_EVENT),
    Step(release_devices, only_if=offloads_devices, event=_OFFLOAD_EVENT),
    Step(claims.release_server, only_if=offloads, event=_OFFLOAD_EVENT),  # nothing of it is on the host any more
)  # fmt: skip
"""The server leaves its host. Each step is repeated until it succeeds."""

SHELVE: Saga[OperationFacts] = Saga(
    "shelve",
    1,
    OperationFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(power.power_off,)),
        Step(
            register_images, undo=withdraw_images, only_if=has_shelved_images, in_request=True, after=(power.power_off,)
        ),
        Step(power.power_off, undo=power.power_as_before, event=_EVENT),
        Step(upload_images, only_if=has_shelved_images, event=_EVENT),
    ),
    forward_only=(
        Step(mark_shelved, event=_EVENT),
        *_OFFLOAD,
        Step(settle_shelved),
    ),
)

SHELVE_OFFLOAD: Saga[OperationFacts] = Saga(
    "shelve_offload",
    1,
    OperationFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True),
        Step(check_images, only_if=has_shelved_images, event=_OFFLOAD_EVENT),
    ),
    forward_only=(*_OFFLOAD, Step(settle_shelved, event=_OFFLOAD_EVENT)),
)


# Unshelve where it is


async def settle_unshelved(run: Operation, cloud: Cloud) -> None:
    fields = {"vm_state": server_states.after("shelved", "unshelved"), **NOT_SHELVED, "updated_at": cloud.clock.now()}
    await operation.records(run, cloud).unlock(run.order, run.subject, fields)


UNSHELVE_IN_PLACE: Saga[OperationFacts] = Saga(
    "unshelve_in_place",
    1,
    OperationFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(power.power_on,)),
        Step(power.power_on, undo=power.power_off, event="compute_start_instance"),
    ),
    forward_only=(
        Step(settle_unshelved, unlocks=True),
        Step(delete_images, only_if=has_shelved_images),  # the guest that they would replace is in use again
    ),
)


# Requests


async def shelve(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    await operation.accept(
        cloud, engine, requester, server, SHELVE, "shelve", "shelving", SHELVABLE,
        shelved_images={disk: cloud.ids.uuid() for disk in _kept_disks(server)},
        image_name=f"{server.name}-shelved",
        image_owner=server.project_id,
        offloads=not server.has_local_root or cloud.rules.shelved_offload_time_s == 0,
    )  # fmt: skip


async def offload(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Free the host of a shelved server. Raises: WrongState; Conflict; Unavailable."""
    await operation.accept(
        cloud, engine, requester, server, SHELVE_OFFLOAD, "shelveOffload", "shelving_offloading", ("shelved",),
        shelved_images=server.shelved_images, offloads=True,
    )  # fmt: skip


async def unshelve_in_place(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Start a shelved server on the host that it is still on. Raises: WrongState; Conflict; Unavailable."""
    await check_connected(cloud, server)
    await operation.accept(
        cloud, engine, requester, server, UNSHELVE_IN_PLACE, "unshelve", "unshelving", ("shelved",),
        shelved_images=server.shelved_images,
    )  # fmt: skip


def _kept_disks(server: Server) -> Iterator[DiskName]:
    """Yield the local disks with contents to keep; swap is made anew."""
    if server.has_local_root:
        yield "root"
    if server.flavor.ephemeral_gib:
        yield "ephemeral"
