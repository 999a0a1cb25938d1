"""The dashboard as a process of its own: what it forwards to the API, and how it finds it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse

from tests.api.front import OTHER_PROJECT, Front
from tests.embedded.opened import opened as identity_opened
from whimbrel.bootstrap import http_server
from whimbrel.bootstrap.separate_dashboard import ApiHealth, open_dashboard
from whimbrel.domain.errors import Invalid, Unavailable
from whimbrel.embedded.dashboard.api_relay import MAX_BODY_BYTES, ApiAddress, ApiRelay, CatalogAddress, KnownAddress
from whimbrel.embedded.dashboard.app import Dashboard
from whimbrel.embedded.dashboard.login_relay import LoginRelay
from whimbrel.settings.sections import ServicesTable
from whimbrel.sim.world.clock import JumpingClock

BROWSER = {"accept": "text/html"}
TOKEN = {"x-auth-token": "member", "openstack-api-version": "compute 2.104"}


@asynccontextmanager
async def separate(api: httpx.AsyncClient, address: ApiAddress) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a dashboard that forwards to an API."""
    relay = ApiRelay(api, address)
    app = http_server.front({"compute": relay.compute, "dashboard": Dashboard(relay.changes, None).app})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://dashboard") as client:
        yield client


@pytest.fixture
async def client(front: Front) -> AsyncIterator[httpx.AsyncClient]:
    api = httpx.AsyncClient(transport=front._client._transport)
    async with separate(api, KnownAddress("http://cloud/")) as found:
        yield found


async def test_the_page_asks_the_api_with_the_token_of_its_user(front: Front, client: httpx.AsyncClient) -> None:
    server = await front.boot("a server")
    found = await client.get("/compute/v2.1/servers/detail?name=a%20server", headers=TOKEN)
    assert [each["id"] for each in found.json()["servers"]] == [server]
    assert found.headers["openstack-api-version"] == "compute 2.104"
    none = await client.get("/compute/v2.1/servers/detail?name=another", headers=TOKEN)
    assert none.json()["servers"] == []
    action = await client.post(f"/compute/v2.1/servers/{server}/action", json={"lock": {}}, headers=TOKEN)
    assert action.status_code == 202
    assert (await front.show(server))["locked"]


async def test_it_has_no_rights_of_its_own(front: Front, client: httpx.AsyncClient) -> None:
    server = await front.boot()
    other = TOKEN | {"x-auth-token": f"reader@{OTHER_PROJECT}"}
    assert (await client.get(f"/compute/v2.1/servers/{server}", headers=other)).status_code == 404
    assert (await client.get("/compute/v2.1/servers")).status_code == 401
    assert (await client.get("/dashboard/changes")).status_code == 404  # the API of this test has none


async def test_only_the_compute_api_is_reached(client: httpx.AsyncClient) -> None:
    for path in ("/internal/", "/placement/", "/identity/v3", "/compute/%2e%2e/internal/", "/compute/v2.1/%2e%2e/x"):
        answer = await client.get(path, headers=TOKEN)
        assert answer.status_code == 404, path
    large = await client.post("/compute/v2.1/servers", content=b"x" * (MAX_BODY_BYTES + 1), headers=TOKEN)
    assert large.status_code == 413


async def test_a_cookie_for_one_user_is_not_sent_for_another() -> None:
    seen = list[str | None]()

    async def behind_a_proxy(scope: Any, receive: Any, send: Any) -> None:
        """Answer as a proxy before the API or Keystone does that keeps sessions."""
        request = Request(scope)
        seen.append(request.headers.get("cookie"))
        answer = JSONResponse({})
        answer.set_cookie("session", request.headers["x-auth-token"])
        await answer(scope, receive, send)

    def connected() -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(behind_a_proxy), base_url="http://cloud")

    relay = ApiRelay(connected(), KnownAddress("http://cloud"))
    page = Dashboard(relay.changes, LoginRelay(connected())).app
    transport = httpx.ASGITransport(http_server.front({"compute": relay.compute, "dashboard": page}))
    for path in ("/compute/v2.1/servers", "/dashboard/identity/v3/auth/projects", "/dashboard/changes"):
        for user in ("ann", "bob"):
            async with httpx.AsyncClient(transport=transport, base_url="http://dashboard") as browser:
                answer = await browser.get(path, headers={"x-auth-token": user})
                assert (answer.status_code, answer.headers.get("set-cookie")) == (200, None)
    assert seen == [None] * 6


async def test_its_pages_are_as_strict(client: httpx.AsyncClient) -> None:
    page = await client.get("/", headers=BROWSER)
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert "connect-src 'self'" in page.headers["content-security-policy"]
    assert (await client.get("/")).json() == {"name": "whimbrel", "services": ["/compute"]}


async def test_an_api_that_does_not_answer_is_said_to() -> None:
    nobody = httpx.AsyncClient()
    async with separate(nobody, KnownAddress("http://127.0.0.1:1")) as client:
        answer = await client.get("/compute/v2.1/servers", headers=TOKEN)
        assert (answer.status_code, answer.json()["error"]["message"]) == (503, "The API does not answer.")
        assert (await client.get("/dashboard/changes", headers=TOKEN)).status_code == 503
    assert await ApiHealth(nobody, "http://127.0.0.1:1").trouble() == "the API does not answer"
    assert await ApiHealth(nobody, None).trouble() is None


async def test_the_catalog_of_the_user_says_where_the_api_is(front: Front, tmp_path: Path) -> None:
    async with identity_opened(tmp_path) as there:
        keystone = httpx.AsyncClient(transport=there.client._transport, base_url="http://keystone/identity")
        address = CatalogAddress(keystone, there.clock, is_insecure=True)
        assert await address.of("not a token") is None
        assert await address.of("token of ann") == "http://cloud"
        api = httpx.AsyncClient(transport=front._client._transport)
        async with separate(api, address) as client:
            assert (await client.get("/compute/v2.1/servers", headers=TOKEN)).status_code == 200
        await keystone.aclose()
        assert await address.of("token of ann") == "http://cloud"  # kept for a while


@pytest.mark.parametrize(
    ("endpoints", "url"),
    [
        ([("public", "https://api.example.org/compute/v2.1")], "https://api.example.org"),
        ([("internal", "http://127.0.0.1:1/compute"), ("public", "https://b:1/x/compute/v2.1/")], "https://b:1/x"),
        ([("admin", "http://a:1/compute")], None),
        ([("public", "https://nova.example.org/v2.1")], None),
        ([], None),
    ],
)
async def test_a_catalog_names_this_cloud_or_none(endpoints: list[tuple[str, str]], url: str | None) -> None:
    listed = [{"interface": interface, "url": each} for interface, each in endpoints]
    catalog = {"catalog": [{"type": "image", "endpoints": []}, {"type": "compute", "endpoints": listed}]}

    async def keystone(scope: Any, receive: Any, send: Any) -> None:
        await JSONResponse(catalog)(scope, receive, send)

    client = httpx.AsyncClient(transport=httpx.ASGITransport(keystone), base_url="http://keystone")
    address = CatalogAddress(client, JumpingClock())
    if url:
        assert await address.of("a token") == url
    else:
        with pytest.raises(Unavailable, match="has no compute service at /compute"):
            await address.of("a token")


async def test_no_token_goes_to_another_machine_without_tls() -> None:
    endpoint = {"interface": "public", "url": "http://api.example.org/compute/v2.1"}

    async def keystone(scope: Any, receive: Any, send: Any) -> None:
        await JSONResponse({"catalog": [{"type": "compute", "endpoints": [endpoint]}]})(scope, receive, send)

    client = httpx.AsyncClient(transport=httpx.ASGITransport(keystone), base_url="https://keystone")
    async with separate(httpx.AsyncClient(), CatalogAddress(client, JumpingClock())) as dashboard:
        answer = await dashboard.get("/compute/v2.1/servers", headers=TOKEN)
        assert answer.status_code == 503
        assert "would be sent there without TLS" in answer.json()["error"]["message"]
    assert await CatalogAddress(client, JumpingClock(), is_insecure=True).of("a token") == "http://api.example.org"


async def test_the_settings_have_to_say_where_something_is() -> None:
    with pytest.raises(Invalid, match="give --api"):
        async with open_dashboard(ServicesTable()):
            pass
    with pytest.raises(Invalid, match="'ca_file' is /none"):
        async with open_dashboard(ServicesTable(url="https://cloud", ca_file="/none")):
            pass
