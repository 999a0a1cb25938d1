"""Operations: short runs on a server that stays on its host. Their facts, and how they are accepted."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from whimbrel.domain.errors import NotFound, Refused, WrongState
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import CellName, HostName, RunId
from whimbrel.domain.operation_facts import Operation, OperationFacts
from whimbrel.domain.pci import ALIAS
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.opening import new_action, new_run
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.hosts.agent import Agent
from whimbrel.ports.stores.journal import Limits, QuotaUsage
from whimbrel.ports.stores.servers import Servers
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga

Kind = TypeVar("Kind", bound=OperationFacts)


class Counting(NamedTuple):
    """The quota usage of a server from the acceptance of an operation on, and before; and the limits of its project."""

    usage: QuotaUsage
    before: QuotaUsage
    limits: Limits


def cell_of(run: Operation) -> CellName:
    assert run.facts.cell, "the server is in a cell"
    return run.facts.cell


def host_of(run: Operation) -> HostName:
    assert run.facts.host, "the server is on a host"
    return run.facts.host


def records(run: Operation, cloud: Cloud) -> Servers:
    return cloud.cell(cell_of(run)).servers


def agent(run: Operation, cloud: Cloud) -> Agent:
    return cloud.agent(cell_of(run), host_of(run))


def key(run: Operation) -> GuestKey:
    assert run.facts.slot, "the server is on a host"
    return GuestKey(run.subject, run.facts.slot)


async def check_agent(run: Operation, cloud: Cloud, orders: Collection[str]) -> None:
    """Raises: Refused: the agent is too old for these orders."""
    await _check_agent(cell_of(run), host_of(run), cloud, orders)


async def check_agent_of(server: Server, cloud: Cloud, orders: Collection[str]) -> None:
    """Check the agent of a server that is on a host, as `check_agent` does."""
    assert server.cell, "the server is in a cell"
    assert server.host, "the server is on a host"
    await _check_agent(server.cell, server.host, cloud, orders)


async def _check_agent(cell: CellName, name: HostName, cloud: Cloud, orders: Collection[str]) -> None:
    hosts = cloud.cell(cell).hosts
    host = await hosts.get(name)
    if not host.session:  # an agent without a session is of this release
        return
    info = await hosts.agent(host)
    if info.verbs and (missing := set(orders) - set(info.verbs)):
        raise Refused(
            f"the agent of host {host.name} is of release {info.release}, which does not know the order"
            f" {min(missing)!r}: upgrade it"
        )


async def lock(run: Operation, cloud: Cloud) -> None:
    """Lock the server if it is idle and in the state of the request. Raises: WrongState: it is not."""
    facts = run.facts
    now = cloud.clock.now()
    try:
        await records(run, cloud).lock(run.order, run.subject, facts.shows, facts.was, facts.slot, now, facts.beside)
    except NotFound:
        raise WrongState(f"Instance {run.subject} was moved meanwhile.") from None  # to another cell


async def unlock(run: Operation, cloud: Cloud) -> None:
    """Unlock the server, in the state in which it was locked."""
    await settle(run, cloud, {})


async def settle(run: Operation, cloud: Cloud, fields: Mapping[str, Any]) -> None:
    """Set these fields and unlock the server, in the state in which it was locked."""
    fields = {"vm_state": run.facts.was, "updated_at": cloud.clock.now(), **fields}
    await records(run, cloud).unlock(run.order, run.subject, fields, run.facts.beside)


async def accept(
    cloud: Cloud,
    engine: Engine,
    requester: Requester,
    server: Server,
    saga: Saga[Kind],
    action: str,
    shows: str | None,
    allowed: tuple[str, ...],
    *,
    beside: RunId | None = None,
    behind: Sequence[RunId] = (),
    before_queued: bool = False,
    oldest: int = 1,
    counting: Counting | None = None,
    **more: Any,
) -> Run[Kind]:
    """Record an operation and take its first step. oldest: the first version of the list that does what is requested.

    counting: if it changes the quota usage of the server. beside, behind, before_queued: as in `Journal.accept`.
    Raises: WrongState; Conflict; OverQuota; Unavailable.
    """
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
    run = new_run(cloud, engine, requester, server, saga, facts, oldest)
    booked = counting._asdict() if counting else {}
    turn = {"beside": beside, "behind": behind, "before_queued": before_queued}
    run = await engine.accept(run, new_action(cloud, requester, server, action, run.id), **turn, **booked)
    return await engine.begin(run, counting.before if counting else None)


def _has_any(server: Server) -> bool:
    return bool(server.nics or server.volumes or ALIAS in server.flavor.extra_specs)
