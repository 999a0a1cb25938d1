"""Clients of Placement that race for the same providers and consumers: tasks of one process, or each a process.

A race is a coroutine function of a store and the number of the client; it tells how its attempts ended. Every loop has
an end: who loses knows why, and looks again only where that can help.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from threading import Barrier
from typing import Literal
from uuid import UUID

from tests.processes import HANG_S
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.domain.errors import WorldError
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, GroupId, ProjectId, ProviderId, RunId, UserId
from whimbrel.placement.errors import Stale
from whimbrel.placement.provider import ANY_GENERATION, Claim, Held, Shape
from whimbrel.ports.placement.placement import GroupRule, HostRule, Inventory, Owner

Ends = Counter[str]
Race = Callable[[SqlPlacement, int], Awaitable[Ends]]

CLIENTS = 8
TRIES = 4
UNITS = 20  # of CLIENTS * TRIES that are wanted
ROUNDS = 4
COMMIT_TURNS = 3  # of the event loop, until a batch of writes is committed on SQLite and can be read

OWNER = Owner(ProjectId("project"), UserId("user"))
HOST, OTHER = ProviderId("11111111-0000-4000-8000-000000000001"), ProviderId("11111111-0000-4000-8000-000000000002")
EMPTY = [ProviderId(f"11111111-0000-4000-8000-00000000001{number}") for number in range(TRIES)]
FIRST, SECOND = ConsumerId("22222222-0000-4000-8000-000000000001"), ConsumerId("22222222-0000-4000-8000-000000000002")
FULL = {"VCPU": UNITS}
BOTH = [(FIRST, HOST), (SECOND, OTHER)]

_start: Barrier | None = None


def ready(start: Barrier) -> None:
    """Begin a process: all wait for each other before each race."""
    global _start  # a process has one, and gets it before anything else
    _start = start


def alone(race: Race, url: str, schema: str, number: int) -> Ends:
    """Run one client as the only one of this process, with connections of its own."""

    async def main() -> Ends:
        database = open_database(url, schema)
        try:
            store = SqlPlacement(database)
            await store.generations([HOST])  # it is connected: nobody is late for that
            assert _start
            _start.wait(HANG_S)
            return await race(store, number)
        finally:
            await database.close()

    return asyncio.run(main())


async def attempt(write: Awaitable[object]) -> str:
    """Return how a write ended."""
    try:
        await write
    except WorldError as error:
        return type(error).__name__
    return "done"


def claim(consumer: ConsumerId, held: Held, generation: int | Literal["any"] | None = ANY_GENERATION) -> Claim:
    return Claim(consumer=consumer, owner=OWNER, held=held, generation=generation)


# The races


async def take_units(store: SqlPlacement, number: int) -> Ends:
    """Take one unit for each of some new consumers."""
    ends = Ends()
    for place in range(TRIES):
        new = _server(number, place)
        ends[await attempt(store.rewrite([claim(new, {HOST: {"VCPU": 1}}, None)]))] += 1
    return ends


async def claim_apart(store: SqlPlacement, number: int) -> Ends:
    """Claim for servers of an anti-affinity group at the same host, which may have one of each group."""
    ends = Ends()
    for place in range(TRIES):
        server = _server(number, place)
        rule = GroupRule(group=GroupId(f"group {place}"), policy="anti-affinity", root=HOST)
        order = Order(RunId(f"run {number} {place}"), 1)
        ends[await attempt(store.claim(order, server, OWNER, {HOST: {"VCPU": 1}}, rule))] += 1
    return ends


async def claim_together(store: SqlPlacement, number: int) -> Ends:
    """Claim for servers of affinity groups, half of the clients at one host, half at the other."""
    ends = Ends()
    for place in range(TRIES):
        server = _server(number, place)
        root = (HOST, OTHER)[number % 2]
        rule = GroupRule(group=GroupId(f"group {place}"), policy="affinity", root=root)
        order = Order(RunId(f"run {number} {place}"), 1)
        ends[await attempt(store.claim(order, server, OWNER, {root: {"VCPU": 1}}, rule))] += 1
    return ends


async def claim_in_old(store: SqlPlacement, number: int, place: int, host: ProviderId) -> None:
    """Claim at a host for a server of this client, as long as the host is in the zone that is called old."""
    server = _server(number, place)
    order, rule = Order(RunId(f"run {number} {place}"), 1), HostRule(root=host, zones=frozenset({"old"}))
    await store.claim(order, server, OWNER, {host: {"VCPU": 1}}, None, rule)


async def claim_where_zones_change(store: SqlPlacement, number: int) -> Ends:
    """Claim at hosts that the other half of the clients brings into another zone."""
    ends = Ends()
    for place, host in enumerate(EMPTY):
        if number % 2:
            ends[await attempt(store.zone_hosts({host: "new"}))] += 1
            continue
        ends[await attempt(claim_in_old(store, number, place, host))] += 1
    return ends


async def claim_where_hosts_are_disabled(store: SqlPlacement, number: int) -> Ends:
    """Claim at hosts that the other half of the clients disables; these count what is held there afterwards."""
    ends = Ends()
    for place, host in enumerate(EMPTY):
        if number % 2:
            await store.set_disabled(host, True)
            ends[f"{len((await store.claims_on(host))[1])} held at {place}"] += 1
            continue
        ends[await attempt(claim_in_old(store, number, place, host))] += 1
    return ends


async def make_one_consumer(store: SqlPlacement, number: int) -> Ends:
    """Be the one who makes a consumer that all want to make, then the next."""
    ends = Ends()
    for place in range(TRIES):
        new = _server(0, place)
        provider = (HOST, OTHER)[number % 2]
        ends[await attempt(store.rewrite([claim(new, {provider: {"VCPU": 1}}, None)]))] += 1
    return ends


async def swap(store: SqlPlacement, number: int) -> Ends:
    """Swap two consumers that fill a provider each, to and fro, naming them in this order or in that."""
    ends = Ends()
    for turn in range(ROUNDS):
        places = _places(turn + number)
        claims = [claim(consumer, {provider: FULL}) for consumer, provider in places]
        ends[await attempt(store.rewrite(claims[:: 1 if number % 2 else -1]))] += 1
    return ends


async def swap_as_seen(store: SqlPlacement, number: int) -> Ends:
    """Swap under the generations that were seen; who was too late looks again."""
    ends = Ends()
    for _ in range(CLIENTS * ROUNDS):  # each time that one is too late another has got on
        if ends["done"] == ROUNDS:
            break
        seen = [(await _generation(store, FIRST)), (await _generation(store, SECOND))]
        claims = [
            claim(consumer, {provider: FULL}, generation)
            for (consumer, provider), generation in zip(_places(sum(seen)), seen, strict=True)
        ]
        ends[await attempt(store.rewrite(claims[:: 1 if number % 2 else -1]))] += 1
        for _turn in range(COMMIT_TURNS):
            await asyncio.sleep(0)  # as between requests: on SQLite neither a read nor a refusal lets others run
    return ends


async def do_everything(store: SqlPlacement, number: int) -> Ends:
    """Write in every way that there is at the same two providers."""
    mine = _server(0, number)
    ends = Ends()
    for turn in range(ROUNDS):
        here, there = (HOST, OTHER) if (number + turn) % 2 else (OTHER, HOST)
        for write in (
            store.rewrite([claim(mine, {here: {"VCPU": 1}, there: {"VCPU": 1}}), claim(FIRST, {there: {"VCPU": 1}})]),
            store.set_traits(here, None, ["HW_CPU_X86_AVX2", "HW_CPU_X86_AVX"][:: 1 if turn % 2 else -1]),
            store.reshape(await _shapes(store, [here, there]), [claim(mine, {there: {"VCPU": 2}})]),
            store.put_aggregates(there, None, ["33333333-0000-4000-8000-000000000001"]),
            store.rewrite([claim(FIRST, {here: {"VCPU": 1}}), claim(mine, {here: {"VCPU": 1}})]),
            store.set_inventories(there, None, {"VCPU": Inventory(total=UNITS)}),
            store.drop(mine),
        ):
            ends[await attempt(write)] += 1
    return ends


def _server(number: int, place: int) -> ConsumerId:
    return ConsumerId(str(UUID(int=1 + number * TRIES + place, version=4)))


def _places(turn: int) -> Sequence[tuple[ConsumerId, ProviderId]]:
    return [(FIRST, OTHER), (SECOND, HOST)] if turn % 2 else BOTH


async def _generation(store: SqlPlacement, consumer: ConsumerId) -> int:
    found = await store.claim_of(consumer)
    if found is None:
        raise Stale(f"{consumer} holds nothing")
    return found[0].generation


async def _shapes(store: SqlPlacement, uuids: Sequence[ProviderId]) -> list[Shape]:
    seen = await store.generations(uuids)
    return [Shape(provider=uuid, generation=seen[uuid], inventories={"VCPU": Inventory(total=UNITS)}) for uuid in uuids]
