"""An errand: a short run on a server that stays where it is. Its facts, and how it is accepted."""

from collections.abc import Mapping
from typing import Any

import msgspec

from whimbrel.domain.errors import NotFound, WrongState
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import CellName, HostName, RunId, Slot
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves import opening
from whimbrel.moves.opening import new_action, new_run
from whimbrel.moves.steps import pci_devices
from whimbrel.ports.cloud import Asker, Cloud
from whimbrel.ports.hosts.agent import Agent
from whimbrel.ports.stores.servers import Servers
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga


class ErrandFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an errand knows: where the server is and how it is shown meanwhile."""

    cell: CellName | None
    host: HostName | None
    slot: Slot | None
    was: str  # vm_state before
    shows: str | None  # task_state meanwhile
    beside: RunId | None = None  # the move that waits for its verdict meanwhile, and lends its lock
    ran: bool | None = None  # whether its guest did, where the record does not say
    hard: bool = False  # of a reboot
    image_id: str | None = None  # of a snapshot
    image_name: str = ""
    image_owner: str = ""
    image_properties: dict[str, str] = {}
    devices: bool = False  # whether it had ports, volumes or devices of its host


def is_placed(facts: ErrandFacts) -> bool:
    return facts.cell is not None and facts.host is not None


def has_devices(facts: ErrandFacts) -> bool:
    return facts.devices


def records(run: Run, cloud: Cloud) -> Servers:
    return cloud.cell(run.facts.cell).servers


def agent(run: Run, cloud: Cloud) -> Agent:
    return cloud.agent(run.facts.cell, run.facts.host)


def key(run: Run) -> GuestKey:
    return GuestKey(run.subject, run.facts.slot)


async def lock(run: Run, cloud: Cloud) -> None:
    """Take the server, if it is idle and as it was when this was asked for. Raises: WrongState: it is not."""
    facts: ErrandFacts = run.facts
    now = cloud.clock.now()
    try:
        await records(run, cloud).lock(run.order, run.subject, facts.shows, facts.was, facts.slot, now, facts.beside)
    except NotFound:
        raise WrongState(f"Instance {run.subject} was moved meanwhile.") from None  # to another cell


async def unlock(run: Run, cloud: Cloud) -> None:
    """Have it idle, in the state in which it was taken."""
    await settle(run, cloud, {})


async def settle(run: Run, cloud: Cloud, fields: Mapping[str, Any]) -> None:
    """Set these fields and have it idle, in the state in which it was taken."""
    fields = {"vm_state": run.facts.was, "updated_at": cloud.clock.now(), **fields}
    await records(run, cloud).unlock(run.order, run.subject, fields, run.facts.beside)


async def accept(
    cloud: Cloud,
    engine: Engine,
    asker: Asker,
    server: Server,
    saga: Saga,
    action: str,
    shows: str | None,
    allowed: tuple[str, ...],
    *,
    beside: RunId | None = None,
    **more: Any,
) -> Run:
    """Write an errand down and take its first step. Raises: WrongState; Conflict; Unavailable."""
    if server.vm_state not in allowed:
        raise WrongState(f"Cannot '{action}' instance {server.id} while it is in vm_state {server.vm_state}")
    facts = saga.facts(
        cell=server.cell,
        host=server.host,
        slot=server.slot,
        was=server.vm_state,
        shows=shows,
        beside=beside,
        **{"devices": _has_any(server), **more},
    )
    run = new_run(cloud, engine, asker, server, saga, facts)
    run = await opening.accept(cloud, engine, run, new_action(cloud, asker, server, action, run.id), beside=beside)
    await engine.begin(run)
    return run


def _has_any(server: Server) -> bool:
    return bool(server.nics or server.volumes or pci_devices.ALIAS in server.flavor.extra_specs)
