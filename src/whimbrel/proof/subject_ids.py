"""The ids to check: those of existing servers, and all others under which something is held."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

from whimbrel.domain.ids import ServerId
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.pages import Page
from whimbrel.proof.collector import Collector
from whimbrel.proof.paged_reads import of_cells, pages


async def server_ids(cloud: Cloud) -> AsyncIterator[list[ServerId]]:
    async for page in pages(cloud.directory.ids):
        yield page


async def other_ids(cloud: Cloud, collector: Collector, known: Collection[str]) -> set[ServerId]:
    """Return the ids under which something is held and that are not those of existing servers. known: those."""
    found = {owner for owner in collector.owners() if owner not in known}
    sources: list[Callable[[str | None, int], Awaitable[Page[Any]]]] = [
        cloud.placement.consumers,
        cloud.network.port_holders,
    ]
    open_runs = {run.id for runs in collector.runs.values() for run in runs}

    async def unknown(source: Callable[[str | None, int], Awaitable[Page[Any]]]) -> set[ServerId]:
        seen = [one async for page in pages(source) for one in page if one not in known and one not in open_runs]
        return {ServerId(one) for one in seen}

    for source in sources:
        found |= await unknown(source)
    async for _, there in of_cells(cloud, collector.unreachable_cells, lambda cell: unknown(cell.servers.ids)):
        found |= there
    return found
