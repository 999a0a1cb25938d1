"""The limits of the identity service, as this cloud's own processes read them: of the embedded one, and of a Keystone.

The embedded service is taken for a Keystone.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contracts.test_identity import LOGIN
from tests.embedded.opened import Opened, opened
from tests.httpx_service import HttpxService
from whimbrel.adapters.openstack.keystone_quotas import KeystoneLimits
from whimbrel.adapters.openstack.own_token import OwnToken
from whimbrel.adapters.openstack.session import Session
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import ProjectId
from whimbrel.embedded.identity.own_limits import COMPUTE, OwnLimits
from whimbrel.ports.services.unified_limits import UnifiedLimits
from whimbrel.sim.world.clock import JumpingClock

P1, P2 = ProjectId("p1"), ProjectId("p2")


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Opened]:
    async with opened(tmp_path) as services:
        yield services


@pytest.fixture(params=["embedded", "keystone"])
def limits(request: pytest.FixtureRequest, services: Opened) -> UnifiedLimits:
    return OwnLimits(services.store) if request.param == "embedded" else keystone(services)


def keystone(services: Opened) -> KeystoneLimits:
    transport = services.client._transport
    token = OwnToken(httpx.AsyncClient(transport=transport, base_url=LOGIN.auth_url), lambda: LOGIN, services.clock)
    client = httpx.AsyncClient(transport=transport, base_url=LOGIN.auth_url, auth=Session(token))
    return KeystoneLimits(HttpxService(client, "identity"), token, "RegionOne")


async def register(services: Opened, name: str, limit: int, region: str | None = None, service: str = COMPUTE) -> None:
    more = {"region_id": region} if region else {}
    one = {"service_id": service, "resource_name": name, "default_limit": limit, **more}
    await _made(services, "registered_limits", one)


async def limit(services: Opened, project: str, name: str, limit: int, **more: Any) -> None:
    one = {"service_id": COMPUTE, "resource_name": name, "resource_limit": limit, "project_id": project, **more}
    await _made(services, "limits", one)


async def _made(services: Opened, kind: str, one: dict[str, Any]) -> None:
    answer = await services.ask("root", "POST", f"/identity/v3/{kind}", {kind: [one]})
    assert answer.status_code == 201, answer.text


async def test_without_limits_there_are_none(limits: UnifiedLimits) -> None:
    assert await limits.registered() == {}
    assert await limits.of_project(P1) == {}


async def test_the_limits_of_projects_beside_the_registered_ones(services: Opened, limits: UnifiedLimits) -> None:
    await register(services, "servers", 10)
    await register(services, "class:VCPU", -1)
    await limit(services, P1, "servers", 0)
    assert await limits.registered() == {"servers": 10, "class:VCPU": -1}
    assert await limits.of_project(P1) == {"servers": 0}
    assert await limits.of_project(P2) == {}


async def test_those_of_this_region_come_first_and_others_do_not_count(services: Opened, limits: UnifiedLimits) -> None:
    answer = await services.ask("root", "POST", "/identity/v3/regions", {"region": {"id": "far"}})
    assert answer.status_code == 201
    for region, number in (("RegionOne", 1), (None, 2), ("far", 3)):
        await register(services, "servers", number, region)
        await limit(services, P1, "servers", number * 10, **({"region_id": region} if region else {}))
    await register(services, "class:VCPU", 4, "far")
    assert await limits.registered() == {"servers": 1}
    assert await limits.of_project(P1) == {"servers": 10}


async def test_those_of_other_services_do_not_count(services: Opened, limits: UnifiedLimits) -> None:
    answer = await services.ask("root", "POST", "/identity/v3/services", {"service": {"type": "dns"}})
    await register(services, "zones", 1, service=answer.json()["service"]["id"])
    assert await limits.registered() == {}


async def test_a_keystone_that_does_not_answer_is_no_answer() -> None:
    def broken(request: httpx.Request) -> httpx.Response:
        return httpx.Response(500)

    async with httpx.AsyncClient(transport=httpx.MockTransport(broken), base_url="http://keystone") as client:
        token = OwnToken(client, lambda: LOGIN, JumpingClock())
        with pytest.raises(Unavailable):
            await KeystoneLimits(HttpxService(client, "identity"), token, None).registered()
