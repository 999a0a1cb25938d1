"""The last known state of a server in an unreachable cell, from the journal's last runs of it."""

from msgspec import Struct

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.flavor import Flavor
from whimbrel.moves.facts import Move, moves_of
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.directory import Entry
from whimbrel.ports.stores.journal import RunFilter


class LastKnown(Struct, frozen=True, kw_only=True):
    flavor: Flavor
    image_id: str | None
    image_properties: dict[str, str]
    zone: str | None  # id


async def last_known(cloud: Cloud, entry: Entry) -> LastKnown:
    """Raises: Unavailable: no run of it is known."""
    runs = await cloud.journal.find(RunFilter(subject=entry.server_id))
    for move in moves_of(runs):
        known = _after(move)
        if known:
            return known
    raise Unavailable(f"The cell of instance {entry.server_id} is not responding. Try again later.")


def _after(move: Move) -> LastKnown | None:
    """Return the server after a move; None: it is as before. A parked move has moved it."""
    facts = move.facts
    if move.state in ("done", "parked"):
        flavor, location = facts.new_flavor, facts.target
    elif facts.old_flavor and move.saga != "rebuild":
        flavor, location = facts.old_flavor, facts.source
    else:
        return None
    return LastKnown(
        flavor=flavor,
        image_id=facts.image_id,
        image_properties=facts.image_properties,
        zone=location.zone if location else None,
    )
