"""An errand: a short run on a server that stays where it is. Its facts, and how it is accepted."""

from typing import Any

import msgspec

from whimbrel.domain.errors import WrongState
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import CellName, HostName, Slot
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.opening import new_action, new_run
from whimbrel.ports.agent import Agent
from whimbrel.ports.cloud import Asker, Cloud
from whimbrel.ports.servers import Servers
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga


class ErrandFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an errand knows: where the server is and how it is shown meanwhile."""

    cell: CellName | None
    host: HostName | None
    slot: Slot | None
    was: str  # vm_state before
    shows: str  # task_state meanwhile
    ran: bool | None = None  # whether its guest did, where the record does not say
    hard: bool = False  # of a reboot
    image_id: str | None = None  # of a snapshot
    image_name: str = ""
    image_owner: str = ""
    image_properties: dict[str, str] = {}


def is_placed(facts: ErrandFacts) -> bool:
    return facts.cell is not None and facts.host is not None


def records(run: Run, cloud: Cloud) -> Servers:
    return cloud.cell(run.facts.cell).servers


def agent(run: Run, cloud: Cloud) -> Agent:
    return cloud.agent(run.facts.cell, run.facts.host)


def key(run: Run) -> GuestKey:
    return GuestKey(run.subject, run.facts.slot)


async def lock(run: Run, cloud: Cloud) -> None:
    """Take the server, if it is idle and as it was when this was asked for."""
    facts: ErrandFacts = run.facts
    await records(run, cloud).lock(run.order, run.subject, facts.shows, facts.was, facts.slot, cloud.clock.now())


async def unlock(run: Run, cloud: Cloud) -> None:
    """Have it idle, in the state in which it was taken."""
    fields = {"vm_state": run.facts.was, "updated_at": cloud.clock.now()}
    await records(run, cloud).unlock(run.order, run.subject, fields)


async def accept(
    cloud: Cloud,
    engine: Engine,
    asker: Asker,
    server: Server,
    saga: Saga,
    action: str,
    shows: str,
    allowed: tuple[str, ...],
    **more: Any,
) -> Run:
    """Write an errand down and take its first step. Raises: WrongState; Conflict; Unavailable."""
    if server.vm_state not in allowed:
        raise WrongState(f"Cannot '{action}' instance {server.id} while it is in vm_state {server.vm_state}")
    facts = ErrandFacts(
        cell=server.cell,
        host=server.host,
        slot=server.slot,
        was=server.vm_state,
        shows=shows,
        **more,
    )
    run = new_run(cloud, engine, asker, server, saga, facts)
    run = await cloud.journal.accept(run, new_action(cloud, asker, server, action, run.id))
    await engine.begin(run)
    return run
