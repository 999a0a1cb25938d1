"""Requests to evacuate servers of dead hosts. Each returns when the request is saved."""

from contextlib import suppress

from whimbrel.domain.errors import Conflict, Invalid, NotFound, WrongState
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName
from whimbrel.domain.run import has_facts
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.moves.evacuate import EVACUATE
from whimbrel.moves.evacuation_facts import NAME, Evacuation, EvacuationFacts
from whimbrel.moves.opening import new_action, new_run
from whimbrel.moves.steps.dead_source import find_evidence
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine

EVACUABLE = ("active", "stopped", "error")


async def evacuate(
    cloud: Cloud,
    engine: Engine,
    requester: Requester,
    server: Server,
    host: HostName | None = None,
    *,
    forced: bool = False,
    stops: bool = False,
    leaves_cell: bool = False,
    admin_pass: str | None = None,
    most_per_minute: int = 0,
) -> Evacuation:
    """Begin to evacuate a server. It goes on once it is evident that its guest cannot run.

    host: the only target allowed. forced: whether it is taken also if the operator reserves or spares it. stops:
    whether the guest stays stopped there. leaves_cell: whether it may go to another cell. admin_pass: for the new disk,
    if it has a config drive; None: as before.
    most_per_minute: how many may begin in a minute from its host, this one among them; 0: any number.
    Raises: Invalid: its host is up, or the server may not go to the target; NotFound: no such target; WrongState;
    Conflict: another run on the server is open; OverRate; Unavailable.
    """
    if server.vm_state not in EVACUABLE:
        raise WrongState(f"Cannot 'evacuate' instance {server.id} while it is in vm_state {server.vm_state}")
    if forced:
        engine.check_heeded("forced")
    if host is not None and host not in (await cloud.fleets.now()).row:
        raise NotFound(f"Compute host {host} not found.")
    source = await _source(cloud, server)
    plain = requests.facts_at(cloud, server, source)
    known = {field: getattr(plain, field) for field in plain.__struct_fields__}
    changes = {"admin_pass": admin_pass} if admin_pass else {}
    asked = {"wanted_host": host, "forced": forced, "stops": stops, "leaves_cell": leaves_cell, "changes": changes}
    facts = EvacuationFacts(**known | asked)
    if host is not None:
        await requests.check_target(cloud, server, facts, host)
    run = new_run(cloud, engine, requester, server, EVACUATE, facts)
    action = new_action(cloud, requester, server, "evacuate", run.id)
    run = await engine.accept(run, action, most_per_minute=most_per_minute)
    await engine.begin(run)
    return run


async def wake_waiting(cloud: Cloud, engine: Engine, host: HostName) -> None:
    """Let the evacuations that wait for evidence about a host look again now."""
    for run in await under_way(cloud, host):
        if run.at == find_evidence.__name__ and run.state == "open":
            with suppress(Conflict):  # it has gone on
                await requests.retry(cloud, engine, run.id)


async def under_way(cloud: Cloud, host: HostName) -> list[Evacuation]:
    """Return the open evacuations of a host."""
    runs = await cloud.journal.find(RunFilter(sagas=(NAME,), only_open=True, source_host=host))
    found = [run for run in runs if has_facts(run, EvacuationFacts)]
    return [run for run in found if run.facts.source and run.facts.source.host == host]


async def _source(cloud: Cloud, server: Server) -> Host:
    """Return the host of a server. Raises: WrongState: it is on none; Invalid: the host is up."""
    if server.host is None or server.cell is None or server.slot is None:
        raise WrongState(f"Instance {server.id} has no host yet.")
    host = await cloud.cell(server.cell).hosts.get(server.host)
    if host.is_up(cloud.clock.now()):
        raise Invalid(f"Compute service of {host.name} is still in use.")
    return host
