"""A plan: what a move would do when it chooses its host, without a move.

Law: nothing is moved and nothing written; given the same snapshot the move chooses what its plan said.
"""

from whimbrel.domain.errors import NotFound, OverQuota, Refused
from whimbrel.domain.server import Server
from whimbrel.moves import needs
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.steps import quota_usage
from whimbrel.moves.target_choice import decide
from whimbrel.ports.cloud import Cloud
from whimbrel.scheduling.decision import Record


async def plan(cloud: Cloud, server: Server, facts: MoveFacts) -> Record | str:
    """Give the record of the decision that a move with these facts would take; a sentence where it is no choice of
    hosts that would end it.

    Raises: OverQuota; Unavailable.
    """
    await _check_quota(cloud, server, facts)
    try:
        asked = await needs.of_server(facts, server.id, cloud)
        return (await decide(asked, cloud, cloud.rules.max_attempts)).record
    except (Refused, NotFound) as no:
        return no.reason


async def _check_quota(cloud: Cloud, server: Server, facts: MoveFacts) -> None:
    """Raises: OverQuota: the request would be refused. It is asked again, in one transaction, when it comes."""
    booking = quota_usage.larger(server.flavor, facts.new_flavor)
    cores, ram_mib = booking.vcpus - server.flavor.vcpus, booking.memory_mib - server.flavor.memory_mib
    if not (cores or ram_mib):
        return
    limits, used = await cloud.quotas.limits(server.project_id), await cloud.directory.usage(server.project_id)
    wanted = (("cores", used.cores + cores, limits["cores"]), ("ram", used.ram_mib + ram_mib, limits["ram"]))
    over = [f"{name}: {amount} of {limit} would be used" for name, amount, limit in wanted if 0 <= limit < amount]
    if over:
        raise OverQuota(f"Quota exceeded for {', '.join(over)}")
