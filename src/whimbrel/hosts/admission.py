"""Admits hosts to the cloud: invitation, key, access to the bus; and retires them.

Invariant: a secret admits one host once, within an hour; only its hash is stored. A retired host is admitted by none of
its keys, and has no servers.
"""

import secrets
from collections.abc import Collection, Sequence
from contextlib import suppress
from hashlib import sha256
from hmac import compare_digest

import msgspec

from whimbrel.domain.errors import Conflict, Forbidden, NotFound
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import Run, has_facts
from whimbrel.moves.facts import MoveFacts, crosses_cells
from whimbrel.ports.cloud import Cell, Cloud
from whimbrel.ports.hosts.bus_access import BusAccess, BusAccesses
from whimbrel.ports.stores.host_keys import HostKey, Invitation
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.servers.listing import cell_fanout

VALID_S = 3600.0
"""How long an invitation is valid."""
SHOWN = 5
"""How many servers or runs an error names."""


class Invited(msgspec.Struct, frozen=True, kw_only=True):
    host: HostName
    cell: CellName
    secret: str
    expires_at: float


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    host: HostName
    cell: CellName
    access: BusAccess


async def invite(cloud: Cloud, host: HostName, cell: CellName) -> Invited:
    """Invite a host into a cell; an earlier invitation of it counts no more.

    Raises: NotFound: the cell; Conflict: the host is in another cell, or its agent is in the process of the cloud;
    Unavailable.
    """
    await cloud.cell_infos.get(cell)
    known = await find(cloud, host)
    if known and known.cell != cell:
        raise Conflict(f"Host {host} is in cell {known.cell}: retire it there first.")
    if known and not known.session and known.is_up(cloud.clock.now()):
        raise Conflict(
            f"The agent of host {host} is in the process of the cloud: remove the host from the settings first."
        )
    now, secret = cloud.clock.now(), secrets.token_urlsafe(32)
    invitation = Invitation(token_hash=_hash(secret), host=host, cell=cell, created_at=now, expires_at=now + VALID_S)
    await cloud.host_keys.invite(invitation)
    return Invited(host=host, cell=cell, secret=secret, expires_at=invitation.expires_at)


async def join(cloud: Cloud, bus: BusAccesses, host: HostName, secret: str, public_key: str) -> Joined:
    """Admit a host with this key, which replaces its earlier one.

    Raises: Forbidden: the secret is wrong, used or too old; Conflict: the key is another host's; Refused: there is no
    bus; Unavailable.
    """
    offered, now = _hash(secret), cloud.clock.now()
    found = [each for each in await cloud.host_keys.invitations(host) if compare_digest(each.token_hash, offered)]
    if not found or not found[0].is_valid(now):
        raise _not_invited(host)
    cell, earlier = found[0].cell, await _key(cloud, host)
    access = await bus.grant(cell, host, public_key)
    try:
        await cloud.host_keys.join(found[0].token_hash, public_key, now)
    except NotFound:  # another request used it meanwhile
        raise _not_invited(host) from None
    if earlier and earlier.public_key != public_key:
        await bus.revoke(earlier.cell, earlier.public_key)
    return Joined(host=host, cell=cell, access=access)


async def find(cloud: Cloud, host: HostName) -> Host | None:
    """Return the row of a host in any cell. Raises: Unavailable: it may be in a cell that does not answer."""
    answers = await cell_fanout.ask_all(cloud, lambda cell: _in_cell(cell, host))
    found = [row for row in answers.of.values() if row]
    if not found:
        answers.check()
    return found[0] if found else None


async def _in_cell(cell: Cell, host: HostName) -> Host | None:
    with suppress(NotFound):
        return await cell.hosts.get(host)
    return None


async def _key(cloud: Cloud, host: HostName) -> HostKey | None:
    with suppress(NotFound):
        return await cloud.host_keys.get(host)
    return None


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _not_invited(host: HostName) -> Forbidden:
    return Forbidden(
        f"There is no valid invitation of host {host} with this secret: it is used once, and within an hour. Invite the"
        f" host again with: whimbrel host invite {host}"
    )


# The end


async def retire(cloud: Cloud, bus: BusAccesses, host: HostName, ending: Collection[Run] = ()) -> None:
    """Remove a host from the cloud, and admit its key no more. Repeatable after an error.

    ending: runs that end by themselves once the host is gone.
    Raises: NotFound: neither registered nor joined; Conflict: it has servers, allocations or open runs, or its agent is
    in the process of the cloud; Unavailable.
    """
    row, key = await find(cloud, host), await _key(cloud, host)
    if row is None and (key is None or key.retired_at is not None):
        raise NotFound(f"Host {host} could not be found.")
    if row and key is None and row.is_up(cloud.clock.now()):
        raise Conflict(
            f"The agent of host {host} is in the process of the cloud: remove the host from the settings first."
        )
    if row:
        await check_unused(cloud, row, ending)
        await _remove_provider(cloud, row)  # first: fails if a server claims something of it meanwhile
    await cloud.host_keys.retire(host, cloud.clock.now())
    if key:
        await bus.revoke(key.cell, key.public_key)
    if row:
        await remove(cloud, row)


async def remove(cloud: Cloud, host: Host) -> None:
    """Remove a host without servers: its provider, its membership of aggregates, its row.

    Raises: Conflict: there are allocations; NotFound: somebody else removed it; Unavailable.
    """
    await _remove_provider(cloud, host)
    for aggregate in await cloud.aggregates.all():
        if host.name in aggregate.hosts:
            await cloud.aggregates.remove_host(aggregate.id, host.name, cloud.clock.now())
    await cloud.cell(host.cell).hosts.delete(host.name)


async def _remove_provider(cloud: Cloud, host: Host) -> None:
    with suppress(NotFound):
        await cloud.placement.delete_tree(host.id)


async def open_runs(cloud: Cloud, host: Host) -> list[Run]:
    """Return the open runs that begin or end on a host."""
    return [run for run in await cloud.journal.find(RunFilter(only_open=True)) if host.name in _hosts_of(run)]


async def check_unused(cloud: Cloud, host: Host, ending: Collection[Run] = ()) -> None:
    """Check that nothing is on a host but runs that are `ending`: deletes of servers there, and moves away from it.

    Raises: Conflict: names the servers, the open runs and the other consumers of allocations on the host.
    """
    known, subjects = {run.id for run in ending}, {run.subject for run in ending if _leaves_record(run)}
    there = [each.id for each in await cloud.cell(host.cell).servers.find(ServerQuery(host=host.name))]
    servers = [server for server in there if server not in subjects]
    runs = [run.id for run in await open_runs(cloud, host) if run.id not in known]
    consumers = await _consumers(cloud, host) - {*servers, *runs, *map(str, subjects | known)}
    problems = [
        *named("server", servers),
        *named("open run", runs),
        *named("allocation", sorted(consumers)),
    ]
    if problems:
        raise Conflict(f"Host {host.name} has {' and '.join(problems)}: disable it, and move or delete these first.")


def _leaves_record(run: Run) -> bool:
    """Check whether a record of the server still names the host: that of a delete, or a copy in the former cell."""
    return not has_facts(run, MoveFacts) or crosses_cells(run.facts)


async def _consumers(cloud: Cloud, host: Host) -> set[str]:
    """Return the consumers of allocations on a host."""
    tree = {each.id for each in await cloud.placement.providers() if each.root == host.id}
    return {str(each.consumer) for each in await cloud.placement.allocations() if each.provider in tree}


def _hosts_of(run: Run) -> set[HostName | None]:
    if has_facts(run, MoveFacts):
        return {place.host for place in (run.facts.source, run.facts.target) if place}
    return {run.facts.host} if has_facts(run, OperationFacts) else set()


def named(thing: str, ids: Sequence[str]) -> list[str]:
    """Return a phrase that names some of these things; nothing, if there are none."""
    if not ids:
        return []
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return [f"the {thing}{'s' if len(ids) > 1 else ''} {', '.join(ids[:SHOWN])}{more}"]
