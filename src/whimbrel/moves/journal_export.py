"""Export of a move's journal as one document, sufficient to replay the move in a simulated cloud.

Invariant: it contains no user data.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Invalid
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName
from whimbrel.domain.run import LogEntry, Run, has_facts
from whimbrel.moves.facts import Location, MoveFacts
from whimbrel.moves.migration_status import LIVE, MOVE_SAGAS
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import Takeover

FORMAT = 1
EXPORTED = MOVE_SAGAS | {LIVE}
"""The lists of steps that a replay can follow."""


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """format: version of the document; unknown versions are not read."""

    whimbrel: Literal["move"] = "move"
    format: int = FORMAT
    taken_at: float  # seconds since 1970
    run: dict[str, Any]
    takeovers: list[Takeover] = []
    hosts: list[Host] = []  # source, target, alternates; those that still exist

    @property
    def facts(self) -> MoveFacts:
        return msgspec.convert(self.run["facts"], MoveFacts)

    @property
    def log(self) -> list[LogEntry]:
        return msgspec.convert(self.run["log"], list[LogEntry])


async def export(cloud: Cloud, run: Run) -> Export:
    """Return the journal entry of a move. Raises: Invalid: the run is no resize or migration."""
    if run.saga not in EXPORTED or not has_facts(run, MoveFacts):
        raise Invalid(f"run {run.id} is of kind {run.saga}: only resizes and migrations can be exported")
    facts = _without_user_data(run.facts)
    takeovers = [one for one in await cloud.journal.takeovers(run.subject) if one.run_id == run.id]
    return Export(
        taken_at=cloud.clock.now(),
        run=msgspec.to_builtins(replace(run, facts=facts)),
        takeovers=takeovers,
        hosts=await _hosts(locations_of(facts), cloud),
    )


def _without_user_data(facts: MoveFacts) -> MoveFacts:
    live = facts.live
    if live and live.guest:
        live = replace(live, guest=replace(live.guest, config_drive=None))
    return replace(facts, user_data=None, changes={}, live=live)


def locations_of(facts: MoveFacts) -> list[Location]:
    return [location for location in (facts.source, facts.target, *facts.alternates) if location]


async def _hosts(places: Sequence[Location], cloud: Cloud) -> list[Host]:
    wanted = {location.host for location in places}
    cells = {location.cell for location in places if location.cell in cloud.cells}
    found = {host.name: host for cell in sorted(cells) for host in await cloud.cell(cell).hosts.all()}
    return [found[name] for name in sorted(wanted) if name in found]


def read(document: Any) -> Export:
    """Raises: Invalid: this is no export of a move, or its format is unknown."""
    try:
        found = msgspec.convert(document, Export)
        _ = found.facts, found.log
    except (msgspec.ValidationError, KeyError) as error:
        raise Invalid(f"this is no exported move: {error}") from None
    if found.format != FORMAT:
        raise Invalid(f"this move was exported in format {found.format}; this program reads format {FORMAT}")
    return found


def hosts_in_order(facts: MoveFacts) -> list[HostName]:
    """Return the hosts that were tried, in order, followed by the remaining alternates."""
    later = [location.host for location in facts.alternates]
    return list(dict.fromkeys([*facts.tried, *later]))
