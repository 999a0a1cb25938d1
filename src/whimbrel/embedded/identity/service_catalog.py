"""The service catalog, as in tokens.

Invariant: the ids of services and endpoints are derived from type and region, so they are the same after every start.
"""

from collections.abc import Sequence
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec

INTERFACES = ("public", "internal", "admin")


class Service(msgspec.Struct, frozen=True, kw_only=True):
    type: str  # "compute", "image", ...
    name: str
    url: str

    @property
    def id(self) -> str:
        return _id(self.type)


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    services: Sequence[Service]
    region: str = "RegionOne"

    def view(self) -> list[dict[str, Any]]:
        """Return the catalog as in a token."""
        return [
            {
                "id": service.id,
                "type": service.type,
                "name": service.name,
                "endpoints": [_endpoint(service, interface, self.region) for interface in INTERFACES],
            }
            for service in self.services
        ]

    def service_views(self) -> list[dict[str, Any]]:
        return [
            {"id": service.id, "type": service.type, "name": service.name, "description": "", "enabled": True}
            for service in self.services
        ]

    def endpoint_views(self) -> list[dict[str, Any]]:
        return [
            {**_endpoint(service, interface, self.region), "service_id": service.id, "enabled": True}
            for service in self.services
            for interface in INTERFACES
        ]

    def region_view(self) -> dict[str, Any]:
        return {"id": self.region, "description": "", "parent_region_id": None}


def _endpoint(service: Service, interface: str, region: str) -> dict[str, Any]:
    return {
        "id": _id(f"{service.type} {interface} {region}"),
        "interface": interface,
        "region_id": region,
        "url": service.url,
        "region": region,
    }


def _id(name: str) -> str:
    return uuid5(NAMESPACE_URL, f"whimbrel:{name}").hex
