"""The catalog as resources: services, endpoints and regions. They follow from the settings and cannot be changed."""

from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from whimbrel.embedded.identity import views
from whimbrel.embedded.identity.request import Ask, json


async def list_services(ask: Ask) -> Response:
    return _listed(ask, "services", ask.door.catalog.service_views(), ("name", "type"))


async def show_service(ask: Ask) -> Response:
    return _shown("service", ask.door.catalog.service_views(), ask.path("service_id"))


async def list_endpoints(ask: Ask) -> Response:
    return _listed(ask, "endpoints", ask.door.catalog.endpoint_views(), ("interface", "service_id", "region_id"))


async def show_endpoint(ask: Ask) -> Response:
    return _shown("endpoint", ask.door.catalog.endpoint_views(), ask.path("endpoint_id"))


async def list_regions(ask: Ask) -> Response:
    return _listed(ask, "regions", [ask.door.catalog.region_view()], ())


async def show_region(ask: Ask) -> Response:
    return _shown("region", [ask.door.catalog.region_view()], ask.path("region_id"))


def _listed(ask: Ask, word: str, lines: Sequence[dict[str, Any]], filters: Sequence[str]) -> Response:
    wanted = ask.filters(*filters).items()
    found = [line for line in lines if all(line[name] == value for name, value in wanted)]
    return json(views.listing(ask.url, word, found))


def _shown(word: str, lines: Sequence[dict[str, Any]], wanted: str) -> Response:
    for line in lines:
        if line["id"] == wanted:
            return json({word: line})
    raise HTTPException(404, f"Could not find {word}: {wanted}.")
