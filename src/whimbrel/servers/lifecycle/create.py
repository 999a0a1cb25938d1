"""Create servers: a move without a source. Without a host, the record stays in the directory, in error."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from whimbrel.domain import server_states
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.moves import needs, quota_checks
from whimbrel.moves.facts import Move, MoveFacts, needs_disks, requests_nics, requests_volumes, target_of
from whimbrel.moves.opening import new_action, new_run
from whimbrel.moves.steps import build_failures, claims, disk, guest, pci_devices, ports, volumes
from whimbrel.moves.steps.target import after_lost_claim, choose_anew, choose_target, chooses_anew, next_alternate
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.placement.placement import Owner
from whimbrel.ports.stores.directory import Usage
from whimbrel.ports.stores.journal import Limits, QuotaUsage
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step


async def greet(move: Move, cloud: Cloud) -> None:
    """Do nothing: the record was written on acceptance. The step exists for its undo."""


async def bury(move: Move, cloud: Cloud) -> None:
    """Set the record to error, with the reason for its owner."""
    now = cloud.clock.now()
    fault = {"code": 500, "message": move.message or "the server could not be built", "created": now}
    fields = {"vm_state": "error", "task_state": None, "fault": fault, "updated_at": now}
    await cloud.directory.change_by_run(move.order, move.subject, fields)


async def place(move: Move, cloud: Cloud) -> None:
    """Insert the record into the cell of its host and set the cell in the directory."""
    entry = await cloud.directory.entry(move.subject)
    if entry.unplaced is None:
        return
    record, target = entry.unplaced, target_of(move)
    arrived = replace(
        record,
        generation=record.generation + 1,
        cell=target.cell,
        host=target.host,
        zone=target.zone,
        slot=target.slot,
        task_state="spawning",
        updated_at=cloud.clock.now(),
    )
    await cloud.cell(target.cell).servers.insert(move.order, arrived)
    await cloud.directory.place(move.order, move.subject, target.cell, record.generation)


async def displace(move: Move, cloud: Cloud) -> None:
    """Remove the record from the cell."""
    target = target_of(move)
    entry = await cloud.directory.entry(move.subject)
    if entry.unplaced is None:
        record = await cloud.cell(target.cell).servers.get(move.subject)
        nowhere: dict[str, Any] = {"cell": None, "host": None, "zone": None, "slot": None, "task_state": None}
        await cloud.directory.displace(move.order, replace(record, **nowhere))
    else:
        await cloud.directory.displace(move.order, entry.unplaced)
    await cloud.cell(target.cell).servers.erase(move.order, move.subject)


async def activate(move: Move, cloud: Cloud) -> None:
    now = cloud.clock.now()
    facts = move.facts
    fields = {
        "nics": tuple(port.nic for port in facts.ports),
        "volumes": facts.volumes,
        "vm_state": server_states.after("building", "spawned"),
        "launched_at": now,
        "updated_at": now,
    }
    await cloud.cell(target_of(move).cell).servers.unlock(move.order, move.subject, fields)


_SCHEDULE = "conductor_schedule_and_build_instances"
_EVENT = "compute__do_build_and_run_instance"

CREATE = Saga(
    "create",
    2,
    MoveFacts,
    undoable=(
        Step(greet, undo=bury, in_request=True, after=(place,)),  # the undo leaves it in error, in the directory
        Step(choose_target, again=next_alternate, anew=after_lost_claim, event=_SCHEDULE, passive=True),
        Step(choose_anew, only_if=chooses_anew, event=_SCHEDULE, passive=True),
        Step(claims.claim_target, undo=claims.release_target, event=_EVENT, after=(guest.prepare_target,)),
        Step(build_failures.trust_host, undo=build_failures.count_failure, idle=True),
        Step(pci_devices.claim_devices, undo=pci_devices.release_devices, only_if=needs.wants_pci, event=_EVENT,
             after=(guest.prepare_target, guest.start_on_target)),
        Step(guest.prepare_target, undo=guest.abandon_target, event=_EVENT,
             after=(disk.build_disk, guest.start_on_target)),
        Step(place, undo=displace, event=_EVENT),  # from here on the cell has the record
        Step(ports.make_ports, undo=ports.unmake_ports, only_if=requests_nics, event=_EVENT,
             after=(guest.start_on_target,)),
        Step(ports.learn_nics, only_if=requests_nics),
        Step(volumes.make_volumes, undo=volumes.unmake_volumes, only_if=requests_volumes, event=_EVENT,
             after=(guest.start_on_target,)),
        Step(volumes.reserve_volumes, only_if=requests_volumes, event=_EVENT),  # unmake_volumes releases them
        Step(volumes.learn_volumes, only_if=requests_volumes),
        Step(volumes.connect_target, only_if=requests_volumes, event=_EVENT),
        Step(disk.build_disk, undo=disk.discard_built, only_if=needs_disks, event=_EVENT,
             after=(guest.start_on_target,)),
        Step(guest.start_on_target, undo=guest.destroy_on_target, event=_EVENT),
        Step(volumes.complete_target, only_if=requests_volumes, event=_EVENT),
        Step(activate, event=_EVENT),
    ),
)  # fmt: skip


async def accept(
    cloud: Cloud,
    engine: Engine,
    requester: Requester,
    servers: Sequence[Server],
    host: HostName | None = None,
    note: str | None = None,
) -> list[Server]:
    """Record new servers and start to build them. host: the only host allowed. note: for their history.
    Raises: Invalid: the flavor or the image has invalid requests; OverQuota: none of them is built, unless
    concurrent requests used up the quota in between; Unavailable.
    """
    for server in servers[:1]:
        needs.check(_facts(server, host), cloud)
    await quota_checks.check_resources([_facts(server, host) for server in servers], cloud)
    limits = await quota_checks.limits_of_directory(cloud, requester.project_id)
    if len(servers) > 1 or cloud.rules.quota.count_usage_from_placement:
        await _check_all(cloud, requester, servers)
    for server in servers:
        await _accept(cloud, engine, requester, server, host, limits, note)
    return list(servers)


async def _check_all(cloud: Cloud, requester: Requester, servers: Sequence[Server]) -> None:
    """Refuse all if the quota does not cover all; each is checked again when its usage is recorded."""
    cores, ram_mib = (sum(getattr(server.flavor, name) for server in servers) for name in ("vcpus", "memory_mib"))
    added = Usage(instances=len(servers), cores=cores, ram_mib=ram_mib)
    await quota_checks.check_usage(cloud, requester.project_id, added)


async def _accept(
    cloud: Cloud,
    engine: Engine,
    requester: Requester,
    server: Server,
    host: HostName | None,
    limits: Limits,
    note: str | None,
) -> None:
    run = new_run(cloud, engine, requester, server, CREATE, _facts(server, host, requester.grant))
    action = replace(new_action(cloud, requester, server, "create", run.id), message=note)
    run = await cloud.journal.accept(
        run,
        action,
        QuotaUsage(vcpus=server.flavor.vcpus, memory_mib=server.flavor.memory_mib),
        limits,
        replace(server, vm_state="building", task_state="scheduling"),
    )
    await engine.begin(run)


def _facts(server: Server, host: HostName | None, grant: str = "") -> MoveFacts:
    return MoveFacts(
        owner=Owner(server.project_id, server.user_id),
        name=server.name,
        image_id=server.image_id,
        new_flavor=server.flavor,
        zone_pin=server.spec.zone_pin,
        wanted_host=host,
        user_data=server.user_data,
        has_local_root=server.has_local_root,
        image_properties=server.image_properties,
        heeds_hardware=server.heeds_hardware,
        root_bus=server.root_bus,
        hints=server.spec.hints,
        requested_nics=server.requested_nics,
        requested_volumes=server.requested_volumes,
        security_groups=server.security_groups,
        config_drive=server.config_drive,
        grant=grant,
    )
