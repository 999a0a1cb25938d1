"""The entries of this cloud in the catalog of a Keystone that others run."""

from contextlib import AsyncExitStack

from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.openstack.catalog_entries import Entry
from whimbrel.bootstrap.external_services import ExternalServices
from whimbrel.bootstrap.service_urls import service_urls
from whimbrel.settings import CloudConfig


def own_entries(config: CloudConfig) -> list[Entry]:
    """Return the entries, with the URLs of [services]."""
    urls = service_urls(config.services, "")
    return [
        Entry("compute", "whimbrel", "Whimbrel compute service", f"{urls.compute}/v2.1"),
        Entry("placement", "placement", "Whimbrel Placement service", urls.placement),
    ]


async def register(config: CloudConfig, *, replace: bool) -> list[str]:
    """Ensure that the catalog has this cloud, and return what was changed.

    Raises: Refused, Unavailable, Invalid: as CatalogEntries does.
    """
    async with AsyncExitStack() as closing:
        external = ExternalServices(config, SystemClock(), closing)
        catalog, changed = external.catalog_entries, list[str]()
        region = external.table.region or await catalog.only_region()
        for entry in own_entries(config):
            changed += await catalog.register(entry, region, replace=replace)
        return changed
