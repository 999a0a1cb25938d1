"""The users of an availability zone, which block its deletion."""

from collections.abc import AsyncIterator, Collection

from msgspec.structs import replace

from whimbrel.domain.server import Server
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.servers import lookup

AT_ONCE = 500
"""Records per read."""
MOST_NAMED = 3


async def holders(cloud: Cloud, zone: str) -> list[str]:
    """Return a sentence for each kind of user: aggregates with the zone, servers in it or pinned to it, moves to it.
    Raises: Unavailable: a cell that may have such servers does not answer.
    """
    carrying = [each.name for each in await cloud.aggregates.all() if each.zone == zone]
    inside: list[str] = []
    pinned: list[str] = []
    async for server in _servers(cloud):
        if server.zone == zone and server.host:
            inside.append(server.id)
        elif server.spec.zone_pin == zone:
            pinned.append(server.id)
    runs = await cloud.journal.find(RunFilter(only_open=True))
    going = [run.subject for run in runs if isinstance(run.facts, MoveFacts) and zone in _zones(run.facts)]
    going = sorted({*going} - {*inside, *pinned})
    kinds = (("carried by aggregates", carrying), ("servers are in it", inside), ("servers are pinned to it", pinned))
    return [f"{words}: {_listed(users)}" for words, users in (*kinds, ("moves concern it, of servers", going)) if users]


async def _servers(cloud: Cloud) -> AsyncIterator[Server]:
    query = ServerQuery(limit=AT_ONCE)
    while page := await lookup.listing(cloud, query):
        for server in page:
            yield server
        query = replace(query, after=page[-1])


def _zones(facts: MoveFacts) -> set[str | None]:
    places = (facts.source, facts.target, *facts.alternates)
    return {facts.asked_zone, facts.zone_pin, *(place.zone for place in places if place)}


def _listed(names: Collection[str]) -> str:
    first, more = sorted(names)[:MOST_NAMED], len(names) - MOST_NAMED
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")
