"""Older copies of databases replace the current ones in a running simulated cloud; later an operator restores it.

Invariants at every instant from the replacement until the end of the restore: no server loses its last complete
guest unless its owner requested its deletion, and no server runs twice. Hosts, services and the agents' ledgers are
unchanged.
"""

import asyncio
from collections.abc import Iterable

from whimbrel.agent.fence import Fence
from whimbrel.domain.errors import WorldError
from whimbrel.domain.ids import ServerId
from whimbrel.moves.steps.shelved_images import SERVER
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.ledgers import NEWEST, Ledgers, contradictions, forgotten
from whimbrel.proof.lost_claims import lost_claims
from whimbrel.servers.lifecycle.create import CREATE
from whimbrel.sim.checks.invariants import Invariants, Violation
from whimbrel.sim.cloud.processes import Staff
from whimbrel.sim.cloud.users import Users
from whimbrel.sim.faults.planned_events import Mishap
from whimbrel.sim.record.trace import Trace
from whimbrel.sim.runs.operator_restore import Unsettled, restore
from whimbrel.sim.world.loop import at_once

OPERATOR_COMES_S = 60.0
"""Delay of the operator: leases expire, and the runs of the older copies proceed as far as they can."""

TRIES, TRIES_EVERY_S = 60, 15.0
"""Retries of the operator while something does not answer."""

REPAIR_S = 10.0

EXPECTED = frozenset(
    {
        "the database is older than what was carried out; all runs are held",
        "all runs are held",
        "a run without its lock is stopped",
        "the runs could not be held",
    }
)
"""Errors that a process logs after the replacement."""


class Restores:
    """is_on: the cloud is not restored yet. left: what the restore leaves to a person. problem: why it does not end."""

    def __init__(self, staff: Staff, users: Users, trace: Trace, invariants: Iterable[Invariants]) -> None:
        self._staff = staff
        self._users = users
        self._trace = trace
        self._invariants = invariants
        self._whole: set[ServerId] = set()
        self._on_volumes: set[ServerId] = set()
        self.which: frozenset[str] = frozenset()
        self.is_on = False
        self.left: list[str] = []
        self.problem = ""

    async def happen(self, mishap: Mishap) -> None:
        """Replace databases by old copies, and restore the cloud later."""
        databases = self._staff.world.remains.databases
        names = mishap.where.split("+")
        copies = {name: databases[name].copy() for name in names}
        await asyncio.sleep(mishap.for_s)
        self._whole = self._lasting()
        guests = self._staff.world.simulated.guests()
        self._on_volumes = {guest.key.server for _, guest in guests if "root" not in guest.disks}
        self.is_on, self.which = True, self.which | set(names)
        self._tell(f"older copies are put back: {', '.join(names)}")
        self._staff.put_back(copies)
        await asyncio.sleep(OPERATOR_COMES_S)
        await self._restore()

    async def _restore(self) -> None:
        why = ""
        for _ in range(TRIES):
            cloud, engine = self._staff.operator()
            try:
                self.left = await restore(cloud, engine, self._staff.world.requester, _let_repair)
            except (Unsettled, WorldError) as trouble:
                why = str(trouble)
                self._trace.note(self._staff.loop.time(), "operator", f"the restore cannot end yet: {why}")
                await asyncio.sleep(TRIES_EVERY_S)
            else:
                self._end()
                return
        self.problem = f"the restore does not end: {why}"

    def _end(self) -> None:
        for invariants in self._invariants:
            invariants.forget_epochs()
        self.is_on = False
        self._tell("the restore has ended" + "".join(f"; left: {words}" for words in self.left))
        how = "something is left" if self.left else "all is right"
        self._trace.tally.restored(" + ".join(sorted(self.which)), how)

    def check(self, after: str) -> None:
        """Check the invariants of a cloud during a restore. Raises: Violation."""
        simulated = self._staff.world.simulated
        if simulated.double_runs:
            raise Violation(f"after {after}: I1: {simulated.double_runs[0]}")
        gone = self._whole - self._users.deleted - _with_a_whole_guest(self._staff) - self._shelved()
        if gone:
            raise Violation(f"after {after}: lost: no whole guest is left of server {min(gone)}")

    def _shelved(self) -> set[ServerId]:
        """Return the servers that are kept as images, and those on volumes that were asked to be shelved."""
        images = self._staff.world.images
        shown = [at_once(images.show(one)) for one in images.ids()]
        kept = {
            ServerId(image.properties[SERVER])
            for image in shown
            if image.status == "active" and SERVER in image.properties
        }
        return kept | {server for server in self._on_volumes if server in self._users.shelved}

    async def check_ledgers(self, after: str) -> None:
        """Check that no process would hold all runs if it started now. Raises: Violation."""
        world = self._staff.world
        remains = world.remains
        fences = {host: Fence(host, remains.store, remains.clock) for host in world.hypervisors}
        of_hosts = {host: await fence.ledger(NEWEST) for host, fence in fences.items()}
        ledgers = Ledgers(of_hosts=of_hosts, cell_of=dict(world.plan.homes()))
        opened = await world.cloud.journal.find(RunFilter(only_open=True))
        older = [*await forgotten(world.cloud, ledgers), *await lost_claims(world.cloud, opened)]
        for found in [*await contradictions(world.cloud, ledgers), *older]:
            raise Violation(f"after {after}: behind: {found}")

    def _lasting(self) -> set[ServerId]:
        """Return the servers that have a complete guest and are not being created."""
        cloud = self._staff.world.cloud
        creates = at_once(cloud.journal.find(RunFilter(sagas=(CREATE.name,))))
        return _with_a_whole_guest(self._staff) & {run.subject for run in creates if run.state == "done"}

    def _tell(self, what: str) -> None:
        self._trace.tell(self._staff.loop.time(), "operator", what)


def _with_a_whole_guest(staff: Staff) -> set[ServerId]:
    return {guest.key.server for _, guest in staff.world.simulated.guests() if guest.has_disk}


async def _let_repair() -> None:
    await asyncio.sleep(REPAIR_S)
