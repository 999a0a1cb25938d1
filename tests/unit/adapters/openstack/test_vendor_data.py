"""Dynamic vendor data: what the operator's services are sent, and what becomes of their answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.unit.guest_data.test_documents import a_guest
from whimbrel.adapters.openstack.dynamic_vendor_data import MOST_BYTES, HttpVendorData
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.guest_settings import GuestRules

RULES = GuestRules(
    vendordata_providers=("StaticJSON", "DynamicJSON"),
    vendordata_dynamic_targets=("dns@http://service/dns", "inventory@http://service/inventory"),
    vendordata_dynamic_connect_timeout_s=0.05,
    vendordata_dynamic_read_timeout_s=0.05,
)
SERVER = a_guest(user_data="aGVsbG8=", metadata={"role": "web"}, boot_roles="member,reader").server
Reply = Callable[[Request], Awaitable[Response]]


class Fixed:
    """Implements adapters.openstack.session.Token."""

    async def get(self, ended: str | None = None) -> str:
        return "own token"


@asynccontextmanager
async def asked(reply: Reply, rules: GuestRules = RULES, *, token: bool = False) -> AsyncIterator[HttpVendorData]:
    app = Starlette(routes=[Route("/{name}", reply, methods=["POST"])])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
        yield HttpVendorData(rules, client, Fixed() if token else None)


async def test_each_service_is_sent_what_nova_sends() -> None:
    sent: list[tuple[str, str | None, Any]] = []

    async def reply(request: Request) -> Response:
        sent.append((request.path_params["name"], request.headers.get("x-auth-token"), await request.json()))
        return JSONResponse({"zone": "example.org"}) if request.path_params["name"] == "dns" else Response()

    async with asked(reply) as services:
        assert await services.of_server(SERVER) == {"dns": {"zone": "example.org"}, "inventory": {}}
    body = {
        "project-id": "p",
        "instance-id": "12345678-bbbb-cccc-dddd-eeeeeeeeeeee",
        "image-id": "87654321-bbbb-cccc-dddd-eeeeeeeeeeee",
        "user-data": "aGVsbG8=",
        "hostname": "web-1",
        "metadata": {"role": "web"},
        "boot-roles": "member,reader",
    }
    assert sent == [("dns", None, body), ("inventory", None, body)]
    async with asked(reply, token=True) as services:
        await services.of_server(replace(SERVER, image_id=None))
    assert (sent[-1][1], sent[-1][2]["image-id"]) == ("own token", "")


async def test_without_the_provider_nobody_is_asked() -> None:
    async def reply(_: Request) -> Response:
        raise AssertionError("asked")

    async with asked(reply, replace(RULES, vendordata_providers=("StaticJSON",))) as services:
        assert await services.of_server(SERVER) == {}


async def an_error(_: Request) -> Response:
    return Response(status_code=500)


async def no_json(_: Request) -> Response:
    return Response("<html>")


async def too_much(_: Request) -> Response:
    return JSONResponse("x" * MOST_BYTES)


async def nothing(_: Request) -> Response:
    await asyncio.Event().wait()
    raise AssertionError("not reached")


@pytest.mark.parametrize("reply", [an_error, no_json, too_much, nothing])
async def test_a_service_in_trouble_gives_nothing_or_keeps_guests_from_starting(reply: Reply) -> None:
    async with asked(reply) as services:
        assert await services.of_server(SERVER) == {"dns": {}, "inventory": {}}
    async with asked(reply, replace(RULES, vendordata_dynamic_failure_fatal=True)) as services:
        with pytest.raises(Unavailable, match="no vendor data of dns"):
            await services.of_server(SERVER)
