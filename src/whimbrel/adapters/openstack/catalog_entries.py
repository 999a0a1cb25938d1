"""Entries of Keystone's catalog: the services of this cloud, and their endpoints in a region.

Invariant: repeatable. An endpoint with another URL is replaced only if that is permitted: it may be the one that others
use now.
"""

from collections.abc import Sequence
from typing import Any

import httpx
import msgspec

from whimbrel.adapters.openstack.answers import Body, error_of, inside
from whimbrel.adapters.unanswered import unanswered
from whimbrel.domain.errors import Invalid, Refused

INTERFACES = ("public", "internal")


class Entry(msgspec.Struct, frozen=True):
    """A service of this cloud, as the catalog is to have it."""

    type: str
    name: str
    description: str
    url: str


class _Service(msgspec.Struct):
    id: str
    name: str = ""


class _Endpoint(msgspec.Struct):
    id: str
    interface: str
    url: str
    region_id: str | None = None


def commands(entries: Sequence[Entry], region: str) -> list[str]:
    """Return the commands that make the entries, for a catalog that has none of them."""
    lines = []
    for entry in entries:
        lines.append(f"openstack service create --name {entry.name} --description '{entry.description}' {entry.type}")
        lines += [
            f"openstack endpoint create --region {region} {entry.type} {interface} {entry.url}"
            for interface in INTERFACES
        ]
    return lines


class CatalogEntries:
    """client: of Keystone, paths begin with /v3; it adds the token of an administrator."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def only_region(self) -> str:
        """Return the only region of the catalog. Raises: Invalid: there are several; Unavailable; Refused."""
        regions = [region.id for region in await self._ask("GET", "/v3/regions", "regions", list[_Service])]
        if len(regions) != 1:
            raise Invalid(f"Keystone has the regions {', '.join(regions) or '(none)'}: set 'region' in [keystone]")
        return regions[0]

    async def register(self, entry: Entry, region: str, *, replace: bool) -> list[str]:
        """Ensure that the catalog has the service with its endpoints, and return what was changed.

        replace: endpoints with another URL. Raises: Refused: there is one and it may not be replaced, or the login may
        not change the catalog; Unavailable.
        """
        service, changed = await self._service(entry)
        found = await self._ask("GET", "/v3/endpoints", "endpoints", list[_Endpoint], params={"service_id": service.id})
        there = {each.interface: each for each in found if each.region_id == region}
        others = [each for each in there.values() if each.url.rstrip("/") != entry.url]
        if others and not replace:
            raise Refused(
                f"region {region} has {entry.type} at {others[0].url} ({others[0].interface}), not at {entry.url}: to"
                " replace it, which every client and service follows, give --replace"
            )
        for endpoint in others:
            await self._ask(
                "PATCH", f"/v3/endpoints/{endpoint.id}", "endpoint", dict, json={"endpoint": {"url": entry.url}}
            )
            changed.append(f"{entry.type} {endpoint.interface}: {endpoint.url} -> {entry.url}")
        for interface in INTERFACES:
            if interface not in there:
                new = {"service_id": service.id, "interface": interface, "url": entry.url, "region_id": region}
                await self._ask("POST", "/v3/endpoints", "endpoint", dict, json={"endpoint": new})
                changed.append(f"{entry.type} {interface}: {entry.url}")
        return changed

    async def _service(self, entry: Entry) -> tuple[_Service, list[str]]:
        """Return the service of this type, made if there is none, and what was changed."""
        found = await self._ask("GET", "/v3/services", "services", list[_Service], params={"type": entry.type})
        if len(found) > 1:
            names = ", ".join(service.name for service in found)
            raise Refused(f"the catalog has several services of the type {entry.type} ({names}): delete all but one")
        if found:
            return found[0], []
        new = {"type": entry.type, "name": entry.name, "description": entry.description}
        made = await self._ask("POST", "/v3/services", "service", _Service, json={"service": new})
        return made, [f"service {entry.name} ({entry.type})"]

    async def _ask(self, method: str, path: str, key: str, kind: type[Body], **what: Any) -> Body:
        with unanswered("the identity service does not answer"):
            answer = await self._client.request(method, path, **what)
        if not answer.is_success:
            raise error_of("identity", answer.status_code, answer.text[:300])
        return inside("identity", key, answer.content, kind)
