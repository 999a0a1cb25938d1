"""Execute maintenances: start moves within the budgets, and note how they end.

Invariant: nothing is kept here. A round reads a maintenance with its items and saves what it finds under the version
that it has read; a move starts in the transaction that binds its run to its item. So a round that is cut off anywhere
is repeated by the next one, and no server is moved twice.
"""

from collections.abc import Awaitable, Sequence

import structlog
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, NotFound, Refused, Superseded, Unavailable, WorldError
from whimbrel.domain.maintenance_plan import HOLDING, Maintenance, MaintenanceItem
from whimbrel.domain.nouns import counted
from whimbrel.domain.run import Run, has_facts
from whimbrel.domain.server import Server
from whimbrel.maintenance import drift, old_guests
from whimbrel.maintenance.budget_use import BudgetUse, HostLocations, locations_of
from whimbrel.maintenance.operator_requests import disable_hosts, return_hosts
from whimbrel.moves import live_requests, requests
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import ItemStart
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup

log = structlog.get_logger(__name__)

MOST_TRIES = 3
"""How many moves of one server may be turned back until it counts as failed."""
RETRY_S = 10.0
"""When a server on which something else is under way is looked at again."""
MOST_PLANNED_ANEW = 20
"""How many servers are planned anew in a round: others have their turn in a later one."""
LATE_S = 240.0
"""How long after an abort a round that was slow may still disable a host."""


async def carry_on_all(cloud: Cloud, engine: Engine) -> None:
    """Do a round of each maintenance that is not over. Raises: the first error, after all had their turn."""
    troubles = []
    for found in await cloud.maintenances.find(HOLDING):
        troubles += await _tried(found, carry_on(cloud, engine, found))
    for found in await cloud.maintenances.find(("aborted",), ended_after=cloud.clock.now() - LATE_S):
        troubles += await _tried(found, return_hosts(cloud, found))
    if troubles:
        raise troubles[0]


async def _tried(found: Maintenance, work: Awaitable[None]) -> list[WorldError]:
    """Return the error of a round of one maintenance, if there is one."""
    try:
        await work
    except Superseded:
        pass  # an operator or another conductor was faster: the next round reads what is so now
    except WorldError as trouble:
        log.warning("a maintenance does not go on", id=found.id, name=found.name, reason=trouble.reason)
        return [trouble]
    return []


async def carry_on(cloud: Cloud, engine: Engine, found: Maintenance) -> None:
    """Do a round of one maintenance. Raises: Superseded: it was changed meanwhile; Unavailable."""
    if found.state == "running" and not found.has_disabled:
        found = await disable_hosts(cloud, found)
    if found.state == "aborting":
        await return_hosts(cloud, found)
    items = await cloud.maintenances.items(found.id)
    found, items = await _note_ends(cloud, engine, found, items)
    if found.state == "running" and _fails_too_often(found, items):
        found = await _pause(cloud, found, f"{counted(_failed(found, items), 'move')} failed since it was started.")
    if found.state == "running":
        locations = await locations_of(cloud, found.options.budgets)
        await Round(cloud, engine, found, items, locations).start_moves()


def _fails_too_often(found: Maintenance, items: Sequence[MaintenanceItem]) -> bool:
    return _failed(found, items) > found.options.budgets.most_failed


def _failed(found: Maintenance, items: Sequence[MaintenanceItem]) -> int:
    return sum(item.state == "failed" for item in items) - found.failed_before


async def _pause(cloud: Cloud, found: Maintenance, why: str, *items: MaintenanceItem) -> Maintenance:
    log.warning("a maintenance is paused", id=found.id, name=found.name, reason=why)
    return await cloud.maintenances.save(
        replace(found, state="paused", message=why, updated_at=cloud.clock.now()), items
    )


# The ends of moves


async def _note_ends(
    cloud: Cloud, engine: Engine, found: Maintenance, items: list[MaintenanceItem]
) -> tuple[Maintenance, list[MaintenanceItem]]:
    """Save what has become of the moves under way; confirm those that wait for it."""
    changed = {}
    for item in items:
        if item.state == "moving":
            after = await _after_move(cloud, engine, found, item)
            if after != item:
                changed[item.position] = after
    items = [changed.get(item.position, item) for item in items]
    state, message = found.state, found.message
    is_idle = not any(item.state == "moving" for item in items)
    if is_idle and state == "aborting":
        state = "aborted"
    nothing_to_do = not any(item.state == "planned" for item in items) and not _fails_too_often(found, items)
    if is_idle and state == "running" and nothing_to_do:
        state, message = "done", await _what_is_left(cloud, found, items)
    if not changed and state == found.state:
        return found, items
    now = cloud.clock.now()
    finished_at = now if state not in HOLDING else None
    after_all = replace(found, state=state, message=message, updated_at=now, finished_at=finished_at)
    return await cloud.maintenances.save(after_all, list(changed.values())), items


async def _after_move(cloud: Cloud, engine: Engine, found: Maintenance, item: MaintenanceItem) -> MaintenanceItem:
    """Return an item whose move is under way, as it is now."""
    assert item.run_id, "a move has a run"
    if await _is_forgotten(cloud, item):  # its request was refused, and nothing was done
        return replace(_put_back(item), due_at=cloud.clock.now() + RETRY_S)
    run = await cloud.journal.get(item.run_id)
    if run.state == "parked":
        return replace(item, reason=await _confirm(cloud, engine, found, run))
    if run.state == "done":
        target = run.facts.target if has_facts(run, MoveFacts) else None
        host = target.host if target else item.target
        return replace(item, state="moved", target=host, finished_at=run.finished_at, reason=_why_moved(item))
    if run.state == "undone":
        return _after_undone(item, run)
    stands = "it stopped at a bug: whimbrel move show " + run.id if run.problem else run.message
    return replace(item, reason=stands)


async def _is_forgotten(cloud: Cloud, item: MaintenanceItem) -> bool:
    assert item.run_id, "a move has a run"
    try:
        await cloud.journal.get(item.run_id)
    except NotFound:
        return True
    return False


def _why_moved(item: MaintenanceItem) -> str | None:
    return f"tried {item.tries + 1} times" if item.tries else None


def _after_undone(item: MaintenanceItem, run: Run) -> MaintenanceItem:
    """Return an item to be tried again if its move was refused, or was not begun; the third time it has failed.

    A move that an operator or the owner turned back has failed.
    """
    why = run.message or "its move was turned back"
    tried = replace(item, tries=item.tries + 1, reason=why)
    was_begun = len({entry.step for entry in run.log}) > 1
    if (run.turned != "refused" and was_begun) or tried.tries >= MOST_TRIES:
        return replace(tried, state="failed", finished_at=run.finished_at)
    return replace(_put_back(tried), reason=why)


def _put_back(item: MaintenanceItem) -> MaintenanceItem:
    return replace(item, state="planned", run_id=None, started_at=None)


async def _confirm(cloud: Cloud, engine: Engine, found: Maintenance, run: Run) -> str | None:
    """Confirm a cold move. Return why that is not possible now."""
    try:
        moved = await lookup.record(cloud, run.subject)
        await requests.confirm(cloud, engine, cloud.on_behalf_of(found), moved.server, moved.locked_by)
    except (Refused, Conflict, NotFound, Unavailable) as no:
        return f"it has arrived and is not confirmed yet: {no.reason}"
    return None


async def _what_is_left(cloud: Cloud, found: Maintenance, items: Sequence[MaintenanceItem]) -> str | None:
    """Return what remains on the hosts that were to become empty, in words."""
    known = {item.server_id for item in items}
    servers = [server for host, cell in found.emptied.items() for server in await lookup.on_host(cloud, cell, host)]
    new = sum(server.id not in known for server in servers)
    if not servers:
        return None
    more = f", {new} of which came after the plan" if new else ""
    return f"the hosts still have {counted(len(servers), 'server')}{more}"


# The starts of moves


class Round:
    """Starts moves of one maintenance, until a budget is used up."""

    def __init__(
        self,
        cloud: Cloud,
        engine: Engine,
        found: Maintenance,
        items: Sequence[MaintenanceItem],
        locations: HostLocations,
    ) -> None:
        self._cloud = cloud
        self._engine = engine
        self._found = found
        self._items = list(items)
        self._searches_left = MOST_PLANNED_ANEW
        self._use = BudgetUse(found.options.budgets, locations, (item for item in items if item.state == "moving"))
        self._unended = {item.position for item in items if item.state in ("planned", "moving")}

    async def start_moves(self) -> None:
        """Raises: Superseded: the maintenance was changed meanwhile; Unavailable; Invalid: see `Windows.is_open`."""
        now = self._cloud.clock.now()
        for item in tuple(self._items):
            if self._found.state != "running" or self._use.is_full or not self._is_open():
                return
            if item.state == "planned" and item.is_due(now) and self._use.has_room(item) and self._has_its_turn(item):
                if await self._makes_room_in_vain(item):
                    await self._save(replace(item, state="left", reason="no move waits for the room that it makes"))
                else:
                    await self._start(item)

    def _has_its_turn(self, item: MaintenanceItem) -> bool:
        """Check whether the moves that make room for it have ended: how they did is seen when its target is checked."""
        return self._unended.isdisjoint(item.waits_for)

    async def _makes_room_in_vain(self, item: MaintenanceItem) -> bool:
        """Check whether it would make room, and no server that is still to leave its host waits for that."""
        found = self._found
        if found.options.goal or item.source in found.named:
            return False
        return not await self._is_waited_for(item)

    async def _is_waited_for(self, item: MaintenanceItem) -> bool:
        for one in self._items:
            if item.position in one.waits_for and one.position in self._unended:
                leaves = one.source in self._found.named
                if await self._is_at_its_source(one) if leaves else await self._is_waited_for(one):
                    return True
        return False

    async def _is_at_its_source(self, item: MaintenanceItem) -> bool:
        try:
            return (await lookup.find(self._cloud, item.server_id)).host == item.source
        except NotFound:
            return False

    def _is_open(self) -> bool:
        return self._found.options.windows.is_open(self._cloud.clock.now())

    async def _start(self, item: MaintenanceItem) -> None:
        cloud = self._cloud
        try:
            server = await lookup.find(cloud, item.server_id)
        except NotFound:
            await self._save(replace(item, state="left", reason="it was deleted"))
            return
        if server.host != item.source:
            await self._save(await self._elsewhere(item, server))
            return
        if why := await self._busy(server):
            await self._postpone(item, why)
            return
        if why := await drift.obstacle(cloud, self._found, item, server):
            if self._found.options.drift == "pause":
                why = f"Server {server.name} ({server.id}) cannot move as planned: {why}"
                self._found = await _pause(cloud, self._found, why, replace(item, reason=why))
                return
            if not self._searches_left:
                await self._postpone(item, f"it is planned anew soon, because {why}")
                return
            self._searches_left -= 1
            item, *added = await drift.planned_anew(cloud, self._found, self._items, item, server, why)
            await self._save(item, *added)
            if added or item.state != "planned" or not self._use.has_room(item):
                return
        await self._move(item, server)

    async def _elsewhere(self, item: MaintenanceItem, server: Server) -> MaintenanceItem:
        """Return the item of a server that is not where the move begins: moved by others, or not by the item before.

        It stays as long as a revert needs its old guest.
        """
        if why := await old_guests.why_left_behind(self._cloud, server.id, item.source):
            return replace(item, state="stays", reason=why)
        before = [one for one in self._items if one.server_id == item.server_id and one.position in item.waits_for]
        if any(one.state == "failed" for one in before):
            why = f"it is on host {server.host}: the move before has failed"
            return replace(item, state="failed", reason=why, finished_at=self._cloud.clock.now())
        return replace(item, state="left", reason=f"it is on host {server.host} now")

    async def _busy(self, server: Server) -> str | None:
        """Return why the server cannot move before something else has ended."""
        run = await self._cloud.journal.open_run(server.id)
        return f"something is under way on it: {run.saga.replace('_', ' ')}" if run and run.state == "open" else None

    async def _move(self, item: MaintenanceItem, server: Server) -> None:
        """Start the move, as the API starts it. The journal binds its run to the item."""
        cloud, found = self._cloud, self._found
        assert item.target, "its target was found suitable"
        begins = ItemStart(
            maintenance_id=found.id,
            version=found.version,
            position=item.position,
            source=drift.foreign_source(found, item),
            target=item.target,
            reason=item.reason,
        )
        asked = (cloud, self._engine, cloud.on_behalf_of(found), server, item.target)
        leaves = found.options.leaves_cell
        run: Run
        try:
            if item.kind == "live":
                run = await live_requests.migrate_live(*asked, leaves_cell=leaves, item=begins)
            else:
                run = await requests.migrate(*asked, leaves_cell=leaves, item=begins)
        except Superseded:
            raise
        except (Refused, Conflict, NotFound) as no:
            await self._after_refusal(no.reason, item.position)
            return
        self._found = replace(found, version=found.version + 1)
        self._use.add(item)
        log.info("a server leaves for maintenance", id=found.id, server=server.id, run=run.id, host=item.target)

    async def _after_refusal(self, why: str, position: int) -> None:
        """Postpone a move that was refused at its beginning, if its run was not bound or is removed again."""
        self._found = await self._cloud.maintenances.get(self._found.id)
        [item] = [each for each in await self._cloud.maintenances.items(self._found.id) if each.position == position]
        if item.state == "planned" or await _is_forgotten(self._cloud, item):
            await self._postpone(item, why)
        else:
            self._use.add(item)  # it is being undone

    async def _postpone(self, item: MaintenanceItem, why: str) -> None:
        await self._save(replace(_put_back(item), reason=why, due_at=self._cloud.clock.now() + RETRY_S))

    async def _save(self, item: MaintenanceItem, *added: MaintenanceItem) -> None:
        found = replace(self._found, updated_at=self._cloud.clock.now())
        self._found = await self._cloud.maintenances.save(found, [item], added=added)
        self._items[item.position] = item
        self._items += added
        self._unended |= {each.position for each in added}
