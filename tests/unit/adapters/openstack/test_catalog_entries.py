"""Entries of a catalog: made once, kept when they are right, and not replaced unless that is permitted."""

import json
from itertools import count
from typing import Any

import httpx
import pytest

from whimbrel.adapters.openstack.catalog_entries import CatalogEntries, Entry, commands
from whimbrel.domain.errors import Invalid, Refused

COMPUTE = Entry("compute", "whimbrel", "compute", "http://w/compute/v2.1")


class Keystone:
    """A catalog in Keystone's protocol."""

    def __init__(self, *regions: str) -> None:
        self.regions = regions
        self.services: dict[str, dict[str, Any]] = {}
        self.endpoints: dict[str, dict[str, Any]] = {}
        self._ids = map(str, count(1))

    def __call__(self, request: httpx.Request) -> httpx.Response:
        kind, _, id = request.url.path.removeprefix("/v3/").partition("/")
        if kind == "regions":
            return httpx.Response(200, json={"regions": [{"id": region} for region in self.regions]})
        stored, one = (self.services, "service") if kind == "services" else (self.endpoints, "endpoint")
        if request.method == "GET":
            asked = dict(request.url.params)
            found = [each for each in stored.values() if asked.items() <= each.items()]
            return httpx.Response(200, json={kind: found})
        said = json.loads(request.content)[one]
        id = id or next(self._ids)
        stored[id] = {**stored.get(id, {}), **said, "id": id}
        return httpx.Response(201, json={one: stored[id]})

    @property
    def catalog(self) -> CatalogEntries:
        return CatalogEntries(httpx.AsyncClient(transport=httpx.MockTransport(self), base_url="http://k"))

    def urls(self) -> set[tuple[str, str, str]]:
        return {(each["region_id"], each["interface"], each["url"]) for each in self.endpoints.values()}


ENTERED = {("R1", interface, COMPUTE.url) for interface in ("public", "internal")}


async def test_entries_are_made_once() -> None:
    keystone = Keystone("R1")
    assert len(await keystone.catalog.register(COMPUTE, "R1", replace=False)) == 3
    assert await keystone.catalog.register(COMPUTE, "R1", replace=False) == []
    assert (len(keystone.services), keystone.urls()) == (1, ENTERED)


async def test_what_was_cut_off_is_completed() -> None:
    keystone = Keystone("R1")
    await keystone.catalog.register(COMPUTE, "R1", replace=False)
    del keystone.endpoints["3"]
    await keystone.catalog.register(COMPUTE, "R1", replace=False)
    assert keystone.urls() == ENTERED


async def test_another_url_is_replaced_only_if_that_is_said() -> None:
    keystone, nova = Keystone("R1", "R2"), Entry("compute", "nova", "", "http://nova/v2.1")
    await keystone.catalog.register(nova, "R1", replace=False)
    await keystone.catalog.register(nova, "R2", replace=False)
    before = keystone.urls()
    with pytest.raises(Refused, match=r"R1 has compute at http://nova/v2.1 .* give --replace"):
        await keystone.catalog.register(COMPUTE, "R1", replace=False)
    assert keystone.urls() == before
    await keystone.catalog.register(COMPUTE, "R1", replace=True)
    assert keystone.urls() == ENTERED | {each for each in before if each[0] == "R2"}
    assert [each["name"] for each in keystone.services.values()] == ["nova"]


async def test_a_type_with_several_services_is_refused() -> None:
    keystone = Keystone("R1")
    keystone.services = {str(id): {"id": str(id), "type": "compute", "name": f"n{id}"} for id in (1, 2)}
    with pytest.raises(Refused, match=r"\(n1, n2\): delete all but one"):
        await keystone.catalog.register(COMPUTE, "R1", replace=True)


async def test_the_only_region() -> None:
    assert await Keystone("R1").catalog.only_region() == "R1"
    with pytest.raises(Invalid, match="R1, R2: set 'region'"):
        await Keystone("R1", "R2").catalog.only_region()


def test_commands_for_an_administrator() -> None:
    assert commands([COMPUTE], "R1") == [
        "openstack service create --name whimbrel --description 'compute' compute",
        "openstack endpoint create --region R1 compute public http://w/compute/v2.1",
        "openstack endpoint create --region R1 compute internal http://w/compute/v2.1",
    ]
