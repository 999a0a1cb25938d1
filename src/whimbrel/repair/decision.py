"""Decide the repair of one subject: the plan, the due claim, and the record if it is rewritten.

Invariant: no claim is announced that would be refused now. Capacity freed by other repairs counts in the next
survey.
"""

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.ids import HostName, ProviderId, ServerId
from whimbrel.moves import needs
from whimbrel.moves.facts import Move, moves_of
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.assignments import Shortfall
from whimbrel.ports.services.volumes import VolumeUse
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.invariants.allocations import due_of
from whimbrel.proof.invariants.table import judged
from whimbrel.proof.recheck import Suspect
from whimbrel.repair import actions
from whimbrel.repair.directory_entry import is_closed
from whimbrel.repair.guests import adoptable
from whimbrel.repair.planning import Plan, plan
from whimbrel.repair.record_rewrite import Known, Settled, is_older, settle, settled, whole_guests
from whimbrel.servers.allocations.port_allocations import Claim


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """due: the claim to make, if any. settled: the new record, if the old one is older than the hosts."""

    plan: Plan
    due: Claim | None = None
    settled: Settled | None = None


async def decide(found: Suspect, cloud: Cloud) -> Decision:
    seen, snapshot = found.seen, found.snapshot
    if await is_closed(seen, snapshot, cloud):
        sentence = f"mark server {seen.id} deleted in the directory, as in its cell"
        return Decision(plan=Plan(actions=(actions.EraseEntry(sentence=sentence),)))
    if not is_older(seen, snapshot) or adoptable(seen, snapshot):
        return await _decide(found, cloud)
    known = await _known(found, cloud)
    record = settle(seen, snapshot, known)
    if isinstance(record, str):
        return _with_reason(await _decide(found, cloud), seen.id, record)
    then = settled(seen, record, known)
    decision = await _decide(Suspect(then, judged(then, snapshot), snapshot), cloud)
    planned = (_settling(seen.id, record), *decision.plan.actions)
    return replace(decision, settled=record, plan=replace(decision.plan, actions=planned))


def _with_reason(decision: Decision, server: ServerId, reason: str) -> Decision:
    """Add the reason why the record is not rewritten, unless the plan has it already."""
    left = decision.plan.left
    if any(reason in words for words in left):
        return decision
    words = f"the record of server {server} is not rewritten from its only whole guest: {reason}"
    return replace(decision, plan=replace(decision.plan, left=(*left, words)))


def _settling(server: ServerId, found: Settled) -> actions.SettleRecord:
    where = f"on {found.host} in cell {found.cell}, {found.vm_state}, of flavor {found.flavor.name}"
    sentence = f"rewrite the record of server {server} from its only whole guest: {where}"
    flavor = found.flavor.flavor_id
    return actions.SettleRecord(sentence=sentence, flavor_id=flavor, cell=found.cell, host=found.host, slot=found.slot)


async def _known(found: Suspect, cloud: Cloud) -> Known:
    [(_, guest)] = whole_guests(found.seen)
    uses: dict[str, VolumeUse] = {}
    for volume in guest.volumes:
        try:
            uses[volume] = await cloud.volumes.volume_use(volume)
        except NotFound:
            continue
    return Known(last=await _last(found.seen.id, cloud), flavors=await cloud.flavors.all(), uses=uses)


async def _last(server: ServerId, cloud: Cloud) -> Move | None:
    sagas = ("resize", "migrate", "create", "rebuild", "evacuate")
    runs = await cloud.journal.find(RunFilter(subject=server, sagas=sagas))
    return next((move for move in moves_of(runs) if move.is_over), None)


async def _decide(found: Suspect, cloud: Cloud) -> Decision:
    planned = plan(found.seen, found.snapshot, found.ordered)
    if not any(isinstance(action, actions.ClaimDue) for action in planned.actions):
        return Decision(plan=planned)
    adopted = next((action.host for action in planned.actions if isinstance(action, actions.AdoptGuest)), None)
    try:
        return Decision(plan=planned, due=await _due_claim(found, adopted, cloud))
    except Refused as refusal:
        return Decision(plan=plan(found.seen, found.snapshot, found.ordered, no_claim=refusal.reason))


async def _due_claim(found: Suspect, host: HostName | None, cloud: Cloud) -> Claim:
    """Return the due claim of a server. host: where it is, if not where its record says.
    Raises: Refused: it is ambiguous, or there is no capacity.
    """
    record, snapshot = found.seen.record, found.snapshot
    assert record, "only servers that there are have claims due"
    root = ProviderId(snapshot.root(host or record.host))
    owed = due_of(found.seen, snapshot, host)
    if not owed.by_tree and len(owed.either) == 1:
        claim = {ProviderId(provider): amounts for provider, amounts in owed.either[0]}
        if unknown := claim.keys() - snapshot.roots.keys():
            raise Refused(
                f"its ports do not name the providers that serve them ({', '.join(unknown)}): whimbrel heal ports"
            )
        return claim
    if any(port.requests for port in found.seen.named_ports):
        raise Refused("its flavor and its ports request parts of a host together: move the server")
    resources = needs.of_flavor(record.flavor, record.image_properties, has_local_root=record.has_local_root)
    way = (await cloud.placement.all_assignments(resources, [root], 1)).get(root)
    if way is None or isinstance(way, Shortfall):
        raise Refused(f"host {host or record.host} {_why_none(way)}")
    return way[0].parts


def _why_none(shortfall: Shortfall | None) -> str:
    if shortfall is None:
        return "is not known to Placement"
    suggestion = f"; enough would be {shortfall.suggestion}" if shortfall.suggestion else ""
    return f"cannot serve what is due: {shortfall.words}{suggestion}"
