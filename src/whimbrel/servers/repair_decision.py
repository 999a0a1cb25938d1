"""What a repair is to do about what is seen: the plan, and the claim that is made with it.

Law: no claim is promised that would be refused as things stand. Room that others give back before is told by looking
again.
"""

import msgspec

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import HostName, ProviderId
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.wishes import Lack
from whimbrel.proof.laws.claims import due_of
from whimbrel.proof.second_look import Suspect
from whimbrel.scheduling.wish import wish_of
from whimbrel.servers.port_claims import Claim
from whimbrel.servers.repair_plan import Plan, plan


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """due: what is to be held; None: the plan makes no claim."""

    plan: Plan
    due: Claim | None = None


async def decide(found: Suspect, cloud: Cloud) -> Decision:
    planned = plan(found.stake, found.ground, found.ordered)
    if not any(mend.kind == "claim_due" for mend in planned.mends):
        return Decision(plan=planned)
    adopted = next((mend.host for mend in planned.mends if mend.kind == "adopt_guest"), None)
    try:
        return Decision(plan=planned, due=await _due_claim(found, adopted, cloud))
    except Refused as refusal:
        return Decision(plan=plan(found.stake, found.ground, found.ordered, no_claim=refusal.reason))


async def _due_claim(found: Suspect, host: HostName | None, cloud: Cloud) -> Claim:
    """Give what a server is to hold. host: where it is, if not where its record says.

    Raises: Refused: that is not clear, or there is no room.
    """
    record, ground = found.stake.record, found.ground
    assert record, "only servers that there are have claims due"
    root = ProviderId(ground.root(host or record.host))
    owed = due_of(found.stake, ground, host)
    if not owed.by_tree and len(owed.either) == 1:
        claim = {ProviderId(provider): amounts for provider, amounts in owed.either[0]}
        if unknown := claim.keys() - ground.roots.keys():
            raise Refused(f"its ports do not say by whom they are served ({', '.join(unknown)}): whimbrel heal ports")
        return claim
    if any(port.requests for port in found.stake.named_ports):
        raise Refused("its flavor and its ports ask for parts of a host together: move the server")
    wish = wish_of(record.flavor, record.image_properties, has_local_root=record.has_local_root)
    way = (await cloud.placement.all_ways(wish, [root], 1)).get(root)
    if way is None or isinstance(way, Lack):
        raise Refused(f"host {host or record.host} {_why_none(way)}")
    return way[0].parts


def _why_none(lack: Lack | None) -> str:
    if lack is None:
        return "is not known to Placement"
    remedy = f"; it would do with {lack.remedy}" if lack.remedy else ""
    return f"cannot give what is due: {lack.words}{remedy}"
