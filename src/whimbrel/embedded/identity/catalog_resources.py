"""The catalog as resources: services, endpoints and regions. They are derived from the settings and read-only."""

from collections.abc import Sequence
from typing import Any

from whimbrel.embedded.identity import views
from whimbrel.embedded.identity.request import Ask
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply


async def list_services(ask: Ask) -> Reply:
    return _listed(ask, "services", ask.context.catalog.service_views(), ("name", "type"))


async def show_service(ask: Ask) -> Reply:
    return _shown("service", ask.context.catalog.service_views(), ask.path("service_id"))


async def list_endpoints(ask: Ask) -> Reply:
    return _listed(ask, "endpoints", ask.context.catalog.endpoint_views(), ("interface", "service_id", "region_id"))


async def show_endpoint(ask: Ask) -> Reply:
    return _shown("endpoint", ask.context.catalog.endpoint_views(), ask.path("endpoint_id"))


async def list_regions(ask: Ask) -> Reply:
    return _listed(ask, "regions", [ask.context.catalog.region_view()], ())


async def show_region(ask: Ask) -> Reply:
    return _shown("region", [ask.context.catalog.region_view()], ask.path("region_id"))


def _listed(ask: Ask, word: str, lines: Sequence[dict[str, Any]], filters: Sequence[str]) -> Reply:
    wanted = ask.filters(*filters).items()
    found = [line for line in lines if all(line[name] == value for name, value in wanted)]
    return Reply(views.listing(ask.root_url, word, found))


def _shown(word: str, lines: Sequence[dict[str, Any]], wanted: str) -> Reply:
    for line in lines:
        if line["id"] == wanted:
            return Reply({word: line})
    raise Problem(404, f"Could not find {word}: {wanted}.")
