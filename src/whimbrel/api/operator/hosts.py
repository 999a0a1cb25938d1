"""Hosts, for operators and for agents that join: /v2.1/whimbrel/hosts is Whimbrel's own part of the API.

A join needs no token of the identity service: the secret of the invitation is enough. Whoever sends wrong ones too
often has to wait.
"""

from collections.abc import Mapping
from hashlib import sha256

import msgspec
from msgspec.structs import asdict

from whimbrel.api.hosts import services
from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.views import locations
from whimbrel.api.views.hosts import (
    ForgottenHost,
    ForgottenHostAnswer,
    HostEvidence,
    HostHardware,
    HostInvitation,
    HostInvitationAnswer,
    HostJoin,
    HostJoinAnswer,
    HostState,
    HostStateAnswer,
    HostStates,
    Trust,
)
from whimbrel.domain.errors import Forbidden, Invalid, NotFound
from whimbrel.domain.host import Host
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.ip_addresses import network_of
from whimbrel.domain.join_token import JoinToken
from whimbrel.domain.self_fencing import counted_after_s
from whimbrel.hosts import admission, forgetting
from whimbrel.http.failed_attempts import TooManyAttempts
from whimbrel.http.problem import Problem
from whimbrel.ports.cloud import Cell
from whimbrel.ports.hosts.bus_access import NO_BUS
from whimbrel.ports.stores.host_keys import HostKey
from whimbrel.ports.stores.hosts import Hosts
from whimbrel.servers.listing import cell_fanout


async def index(call: Call) -> HostStates:
    """List the hosts of all cells, and those that have joined and are not registered yet."""
    shown, unreachable = await _shown(call)
    return HostStates(sorted(shown.values(), key=lambda host: (host.cell, host.name)), sorted(unreachable))


async def show(call: Call) -> HostStateAnswer:
    """Show one host."""
    return HostStateAnswer(await _one(call))


async def invite(call: Call) -> HostInvitationAnswer:
    """Invite a host: return a token with which it joins a cell, once, within an hour."""
    if call.context.bus.problem is None:
        raise Problem(400, NO_BUS)
    requested = call.body["host"]
    cell = CellName(requested["cell"]) if "cell" in requested else await _only_cell(call)
    invited = await admission.invite(call.cloud, HostName(requested["name"]), cell)
    public = call.context.public
    token = JoinToken(
        url=public.url or f"{call.root_url}/v2.1",
        host=invited.host,
        cell=cell,
        secret=invited.secret,
        ca_sha256=public.ca_sha256,
    )
    return HostInvitationAnswer(
        HostInvitation(host=invited.host, cell=cell, expires_at=invited.expires_at, token=str(token))
    )


async def switch(call: Call) -> HostStateAnswer:
    """Enable or disable a host for new servers."""
    requested = call.body["host"]
    enabled, reason = truth(requested["enabled"]), requested.get("disabled_reason")
    if enabled and reason:
        raise Problem(400, "An enabled host has no disabled_reason.")
    host = await _known(call)
    await services.set_status(call, host, enabled=enabled, reason=reason, forced_down=None)
    return HostStateAnswer(await _one(call))


async def force_down(call: Call) -> HostStateAnswer:
    """Record an administrator's word that a host is dead, or withdraw it."""
    requested, host = call.body["force_down"], await _known(call)
    forced, why = truth(requested["forced_down"]), requested.get("reason")
    if forced and not why:
        raise Problem(400, "Say why the host is certainly dead: 'reason'.")
    await services.set_status(
        call, host, enabled=host.enabled, reason=host.disabled_reason, forced_down=forced, why=why if forced else None
    )
    return HostStateAnswer(await _one(call))


async def retire(call: Call) -> None:
    """Remove a host that has neither servers nor open runs, and admit its agent no more."""
    await admission.retire(call.cloud, call.context.bus, HostName(call.params["host"]))


async def forget(call: Call) -> ForgottenHostAnswer:
    """Remove a host that never returns, on evidence that nothing runs on it, and admit its agent no more."""
    name = HostName(call.params["host"])
    evidence = await forgetting.forget(call.cloud, call.context.bus, name)
    shown = msgspec.convert(evidence, HostEvidence, from_attributes=True) if evidence else None
    return ForgottenHostAnswer(ForgottenHost(host=name, evidence=shown))


# For agents


async def trust(call: Call) -> Trust:
    """Return the certificates that this API is trusted by. A host compares their hash with that of its token."""
    return Trust(ca=call.context.public.ca_pem)


async def join(call: Call) -> HostJoinAnswer:
    """Admit a host by the secret of its invitation, with the public key that it has made."""
    requested, failed = call.body["join"], call.context.failed_joins
    origin = sha256(network_of(call.address).encode()).digest()
    try:
        failed.check(origin)
        joined = await admission.join(
            call.cloud, call.context.bus, HostName(requested["host"]), requested["secret"], requested["public_key"]
        )
    except TooManyAttempts as error:
        raise Problem(429, str(error), headers={"retry-after": str(error.retry_after_s)}) from None
    except Forbidden:
        failed.add(origin)
        raise
    access = joined.access
    return HostJoinAnswer(
        HostJoin(host=joined.host, cell=joined.cell, bus_urls=list(access.urls), bus_ca=access.ca_pem, jwt=access.jwt)
    )


async def _only_cell(call: Call) -> CellName:
    """Raises: Invalid: there are several."""
    names = [info.name for info in await call.cloud.cell_infos.all()]
    if len(names) != 1:
        raise Invalid(f"Name the cell of the host: one of {', '.join(names)}.")
    return names[0]


async def _known(call: Call) -> Host:
    host = await admission.find(call.cloud, HostName(call.params["host"]))
    if host is None:
        raise NotFound(f"Host {call.params['host']} could not be found.")
    return host


async def _one(call: Call) -> HostState:
    name = HostName(call.params["host"])
    shown, unreachable = await _shown(call)
    if name not in shown:
        cell_fanout.check(unreachable)
        raise NotFound(f"Host {name} could not be found.")
    state = shown[name]
    if state.state != "joined":
        hosts = call.cloud.cell(CellName(state.cell)).hosts
        await _add_described(state, hosts, (await hosts.descriptions()).get(name))
    return state


async def _add_described(state: HostState, hosts: Hosts, described: HostDescription | None) -> None:
    if state.driver == "libvirt":
        state.guest_nics = (described.net.guest_nics if described else None) or "tap"
    if described and described.hardware_digest and (found := await hosts.hardware(described.name)):
        more = {"mismatches": found.mismatches(described.net, described.pci)}
        state.hardware = msgspec.convert(asdict(found) | more, HostHardware, from_attributes=True)


async def _shown(call: Call) -> tuple[dict[HostName, HostState], frozenset[CellName]]:
    """Return all hosts that are known or have joined, and the cells that do not answer."""
    answers = await cell_fanout.ask_all(call.cloud, _of_cell)
    keys = {key.host: key for key in await call.cloud.host_keys.all() if key.retired_at is None}
    zones, aggregates = await locations.zone_names(call), await call.cloud.aggregates.all()
    now, found = call.cloud.clock.now(), dict[HostName, HostState]()
    for hosts, releases, servers in answers.of.values():
        for host in hosts:
            zone = locations.zone_name(zones, locations.zone_among(call, host.name, aggregates))
            found[host.name] = _host(host, zone, releases, servers, keys.get(host.name), now)
    for key in keys.values():
        if key.host not in found and key.cell not in answers.unreachable:
            found[key.host] = HostState(name=key.host, cell=key.cell, state="joined", joined_at=key.joined_at)
    return found, answers.unreachable


async def _of_cell(cell: Cell) -> tuple[list[Host], Mapping[HostName, str], Mapping[HostName, int]]:
    """Return the hosts of a cell, the releases of their agents, and how many servers each has."""
    agents, everything = await cell.hosts.agents(), await cell.hosts.news(None)
    releases = {name: agent.release for name, agent in agents.items()}
    return everything.hosts, releases, {name: load.servers for name, load in everything.loads.items()}


def _host(
    host: Host,
    zone: str,
    releases: Mapping[HostName, str],
    servers: Mapping[HostName, int],
    key: HostKey | None,
    now: float,
) -> HostState:
    more = {
        "state": "up" if host.is_up(now) else "down",
        "zone": zone,
        "release": releases.get(host.name, ""),
        "joined_at": key.joined_at if key else None,
        "servers": servers.get(host.name, 0),
        "self_fence_counted_s": counted_after_s(host.self_fence_s) if host.self_fence_s else None,
    }
    return msgspec.convert(asdict(host) | more, HostState)
