"""Checks of maintenances: no claim is made on a disabled host, and each server's part of a plan ends once."""

from collections import defaultdict

from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import ProviderId
from whimbrel.domain.maintenance_plan import Maintenance, MaintenanceItem
from whimbrel.domain.run import Run
from whimbrel.ports.placement.placement import DISABLED
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.sim.checks.invariants import Violation
from whimbrel.sim.cloud.cloud import World

ENDS = ("moved", "failed", "left", "stays")
"""States of items when a maintenance is done."""


class DisabledHosts:
    """Remembers which servers have claims on disabled hosts: they only become fewer."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: dict[ProviderId, set[str]] = {}

    async def check(self, after: str) -> None:
        """Raises: Violation."""
        now = await self._claims()
        for root in now.keys() & self._held.keys():
            if new := sorted(now[root] - self._held[root]):
                raise Violation(
                    f"after {after}: disabled: server {new[0]} has got a claim on {root}, which is disabled"
                )
        self._held = now

    async def _claims(self) -> dict[ProviderId, set[str]]:
        """Return the servers with claims on each disabled host."""
        placement = self._world.cloud.placement
        providers = await placement.providers()
        held: dict[ProviderId, set[str]] = {one.id: set() for one in providers if DISABLED in one.traits}
        if not held:
            return held
        root_of = {one.id: one.root for one in providers}
        subjects = {str(run.id): str(run.subject) for run in await self._world.cloud.journal.find(RunFilter())}
        for claim in await placement.allocations():
            if (root := root_of[claim.provider]) in held:
                held[root].add(subjects.get(claim.consumer, claim.consumer))
        return held


async def problems(world: World) -> list[str]:
    """Return what is wrong with the maintenances that are over, in a cloud at rest."""
    cloud, found = world.cloud, list[str]()
    runs = {run.id: run for run in await cloud.journal.find(RunFilter())}
    claimed: defaultdict[str, int] = defaultdict(int)
    for one in await cloud.maintenances.find(("done", "aborted")):
        found += await _host_problems(world, one)
        for item in await cloud.maintenances.items(one.id):
            if item.state not in (ENDS if one.state == "done" else (*ENDS, "planned")):
                found.append(f"maintenance {one.id} is {one.state}, and {item.server_id} is {item.state}")
            if item.run_id:
                claimed[item.run_id] += 1
                found += _move_problems(item, runs.get(item.run_id))
    return found + [
        f"{number} servers of maintenances have the move {run}" for run, number in claimed.items() if number > 1
    ]


async def _host_problems(world: World, one: Maintenance) -> list[str]:
    """Compare the hosts with the state that the maintenance leaves; `was_enabled` None: it was never started."""
    traits = {each.id: each.traits for each in await world.cloud.placement.providers()}
    found = []
    for host in one.hosts:
        try:
            row = await world.cloud.cell(host.cell).hosts.get(host.name)
        except NotFound:
            continue
        enabled = one.state == "aborted"
        if host.was_enabled and (row.enabled, DISABLED in traits[row.id]) != (enabled, not enabled):
            found.append(f"host {host.name} is {row.enabled=}, with {DISABLED in traits[row.id]=}, after {one.state}")
    return found


def _move_problems(item: MaintenanceItem, run: Run | None) -> list[str]:
    due = {"moved": "done", "failed": "undone"}.get(item.state)
    if run is None or run.subject != item.server_id:
        return [f"the move {item.run_id} of {item.server_id} is not in the journal"]
    return [f"{item.server_id} is {item.state}, and its move is {run.state}"] if due and run.state != due else []
