"""Steps that replace the claim of a server that stays on its host by the due one: for healing and repair.

Invariant: the claim includes the server's group, as in a move, so that the group's policy holds for later members.
"""

from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.ids import ConsumerId
from whimbrel.domain.operation_facts import Operation, OperationFacts
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves import needs
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.placement import GroupRule, Owner
from whimbrel.servers import operation
from whimbrel.servers.allocations.port_allocations import Claim


class ClaimFacts(OperationFacts, frozen=True, kw_only=True, omit_defaults=True):
    """held: the claim before. Both None: the claim does not change."""

    held: Claim | None = None
    due: Claim | None = None


ClaimOperation = Run[ClaimFacts]


def changes_claim(facts: ClaimFacts) -> bool:
    return facts.due is not None and facts.held != facts.due


async def claim_due(run: ClaimOperation, cloud: Cloud) -> None:
    await _claim_in_group(run, run.facts.due, cloud)


async def claim_as_before(run: ClaimOperation, cloud: Cloud) -> None:
    """Restore the former claim. If that is refused, keep the due one instead of waiting."""
    try:
        await _claim_in_group(run, run.facts.held, cloud)
    except Refused:
        return


async def record_of(run: Operation, cloud: Cloud) -> Server:
    """Return the record, also of a server without a host."""
    if run.facts.cell is not None:
        return await operation.records(run, cloud).get(run.subject)
    entry = await cloud.directory.entry(run.subject)
    if entry.unplaced is None:
        raise Unavailable(f"server {run.subject} has got a host meanwhile")
    return entry.unplaced


async def put_claim(run: Operation, claim: Claim, cloud: Cloud, group: GroupRule | None = None) -> None:
    """Replace the claim of the server. Its location in a group is kept while it has any claim."""
    record = await record_of(run, cloud)
    owner = Owner(record.project_id, record.user_id)
    await cloud.placement.claim(run.order, ConsumerId(run.subject), owner, claim, group)


async def _claim_in_group(run: ClaimOperation, claim: Claim | None, cloud: Cloud) -> None:
    """Replace the claim and the group's location: the lost claim may have been the server's only one."""
    assert claim is not None, "the step before saves it"
    await put_claim(run, claim, cloud, await _rule(run, claim, cloud))


async def _rule(run: ClaimOperation, claim: Claim, cloud: Cloud) -> GroupRule | None:
    group = await cloud.server_groups.of_server(run.subject) if claim else None
    if group is None:
        return None
    roots = {one.id: one.root for one in await cloud.placement.providers()}
    return needs.group_rule(group, roots[next(iter(claim))])
