"""Claim again what an open move held and Placement has lost, as the move itself had claimed it.

Invariant: Placement counts the orders of the move as before until all is claimed, so that a refused claim is found
again.
"""

from msgspec.structs import replace

from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, ProviderId
from whimbrel.moves import needs
from whimbrel.moves.facts import old_flavor_of, source_of, target_of
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.placement import GroupRule
from whimbrel.proof.due_allocations import due
from whimbrel.proof.lost_claims import LostClaims


async def claim_again(lost: LostClaims, cloud: Cloud) -> str | None:
    """Repeatable. Return why a claim is refused; the claims before it are made then."""
    move = lost.move
    order, server = replace(move.order, progress=lost.seen), ConsumerId(move.subject)
    rule, _ = await needs.rules_of_claim(move, cloud)  # its host may be disabled by now: the server's guest is there
    try:
        if lost.source:
            await _hold_source(lost, order, rule, cloud)
        if lost.target:
            await cloud.placement.claim(order, server, move.facts.owner, target_of(move).parts, rule)
    except Refused as refused:
        return refused.reason
    await cloud.placement.note_order(move.order)
    return None


async def _hold_source(lost: LostClaims, order: Order, rule: GroupRule | None, cloud: Cloud) -> None:
    """Let the move hold the claim on its source. When the copy was made the server may have been on another host.

    Raises: Refused.
    """
    move, facts, source = lost.move, lost.move.facts, source_of(lost.move)
    roots: dict[str, str] = {each.id: each.root for each in await cloud.placement.providers()}
    flavor, properties, root = old_flavor_of(move), facts.image_properties, source.provider
    owed = due(flavor, properties, root, facts.ports, roots, has_local_root=facts.has_local_root)
    if not owed.is_held(lost.own, roots):
        if owed.by_tree:
            raise Refused(f"which providers of {source.host} served server {move.subject} is not known any more")
        wanted = {ProviderId(provider): amounts for provider, amounts in owed.either[0]}
        there = replace(rule, root=root) if rule else None
        await cloud.placement.claim(order, ConsumerId(move.subject), facts.owner, wanted, there)
    await cloud.placement.hand_over(order, ConsumerId(move.subject), ConsumerId(move.id), facts.owner)
