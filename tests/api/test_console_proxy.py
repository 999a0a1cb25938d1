"""The proxy of consoles, with a client's WebSocket to a server that listens, and a simulated guest at the other end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from tests.api.front import Front
from tests.processes import HANG_S
from whimbrel.bootstrap import http_server
from whimbrel.embedded.console.app import ConsoleProxy, ProxyLimits
from whimbrel.settings import HttpTable

SITE = "http://dashboard.example.org"
USUAL = HttpTable()
TYPES = {"serial": "serial", "vnc": "novnc"}


class Proxy:
    def __init__(self, front: Front, url: str) -> None:
        self.front = front
        self.url = url
        self.at = url.removeprefix("http://")

    async def token(self, server: str, protocol: str = "serial") -> str:
        console = {"remote_console": {"protocol": protocol, "type": TYPES[protocol]}}
        url = (await self.front.ask("POST", f"/servers/{server}/remote-consoles", console)).json()
        return str(url["remote_console"]["url"]).replace("%3D", "=").rpartition("token=")[2]

    def connect(self, token: str, **more: Any) -> connect:
        return connect(f"ws://{self.at}/console/?token={token}", subprotocols=["binary"], **more)

    async def refusal(self, token: str, **more: Any) -> tuple[int, str]:
        with pytest.raises(InvalidStatus) as refused:
            await self.connect(token, **more)
        response = refused.value.response
        return response.status_code, (response.body or b"").decode()


@asynccontextmanager
async def serving(front: Front, limits: ProxyLimits, peers: HttpTable = USUAL) -> AsyncIterator[Proxy]:
    endpoint, stop, ready = http_server.listen("127.0.0.1", 0), asyncio.Event(), asyncio.Event()
    url = http_server.url_of(endpoint)
    proxy = ConsoleProxy(front.world.cloud, url, limits)
    app = http_server.front({"console": proxy.app})
    work = asyncio.create_task(http_server.serve(app, endpoint, stop, ready.set, peers, websockets_at="console"))
    await ready.wait()
    yield Proxy(front, url)
    stop.set()
    await work


@pytest.fixture
async def proxy(front: Front) -> AsyncIterator[Proxy]:
    async with serving(front, ProxyLimits(allowed_origins=["dashboard.example.org"], sessions=2)) as found:
        yield found


async def hear(socket: ClientConnection, wanted: bytes) -> bytes:
    heard = b""
    async with asyncio.timeout(HANG_S):
        while wanted not in heard:
            data = await socket.recv()
            assert isinstance(data, bytes)
            heard += data
    return heard


async def wait_until_closed(socket: ClientConnection) -> None:
    async with asyncio.timeout(HANG_S):
        async for _ in socket:
            pass


async def test_a_token_opens_the_console_of_its_server_as_often_as_it_is_used(proxy: Proxy) -> None:
    server, other = await proxy.front.boot("one"), await proxy.front.boot("two")
    token = await proxy.token(server)
    async with proxy.connect(token) as first, proxy.connect(token) as second:
        assert second.subprotocol == "binary"
        said = await hear(second, b"host ")
        assert f"server {server}\r\n".encode() in said
        assert other.encode() not in said
        await wait_until_closed(first)
        await second.send(b"who is there\r")
        await hear(second, b"who is there\r\n")


async def test_there_is_a_limit_of_connections_at_the_same_time(proxy: Proxy) -> None:
    token = await proxy.token(await proxy.front.boot(), "vnc")
    async with proxy.connect(token), proxy.connect(token):
        assert await proxy.refusal(token) == (503, "There are too many open consoles.")
    async with proxy.connect(token):
        pass


async def test_the_screen_speaks_rfb(proxy: Proxy) -> None:
    server = await proxy.front.boot("one")
    async with proxy.connect(await proxy.token(server, "vnc")) as socket:
        await hear(socket, b"RFB 003.008\n")
        await socket.send(b"RFB 003.008\n\x01\x01")
        assert b"one (simulated)" in await hear(socket, b"(simulated)")


@pytest.mark.parametrize("action", [{"os-stop": None}, {"migrate": None}, None])
async def test_a_connection_ends_with_a_stop_a_move_and_a_delete(proxy: Proxy, action: Any) -> None:
    front = proxy.front
    server = await front.boot()
    token = await proxy.token(server)
    async with proxy.connect(token) as socket:
        await hear(socket, b"host ")
        if action:
            await front.act(server, action, who="admin")
        else:
            await front.ask("DELETE", f"/servers/{server}")
        await front.settle()
        await wait_until_closed(socket)
    status, _ = await proxy.refusal(token)
    assert status == (409 if action == {"os-stop": None} else 403)


async def test_wrong_and_expired_tokens_open_nothing(proxy: Proxy) -> None:
    token = await proxy.token(await proxy.front.boot())
    for wrong in ("", "none", token[:-1], token.lower()):
        assert await proxy.refusal(wrong) == (403, "")
    proxy.front.world.cloud.clock.advance(601.0)
    assert await proxy.refusal(token) == (403, "")


async def test_pages_of_other_sites_open_nothing(proxy: Proxy) -> None:
    token = await proxy.token(await proxy.front.boot())
    foreign = ("http://evil.example.org", "https://" + proxy.at, "http://127.0.0.1:1", "null", "file://", "http://[")
    for origin in foreign:
        assert (await proxy.refusal(token, origin=origin))[0] == 403
    for origin in (proxy.url, SITE):
        async with proxy.connect(token, origin=origin) as socket:
            await hear(socket, b"host ")


async def test_the_page_comes_with_its_policy(proxy: Proxy) -> None:
    async with httpx.AsyncClient(base_url=proxy.url) as client:
        for path in ("vnc_lite.html", "novnc/core/rfb.js", "novnc/docs/LICENSE.MPL-2.0", "serial.js", "xterm/LICENSE"):
            answer = await client.get(f"/console/{path}")
            assert answer.status_code == 200
            assert "script-src 'self';" in answer.headers["content-security-policy"]
            assert "frame-ancestors 'self' dashboard.example.org:*" in answer.headers["content-security-policy"]
            assert answer.headers["referrer-policy"] == "no-referrer"
        for path in ("", "serial.html"):  # the address of a serial line shows its page in a browser
            answer = await client.get(f"/console/{path}")
            assert (answer.status_code, "serial.js" in answer.text) == (200, True)
            policy = answer.headers["content-security-policy"]
            assert ("script-src 'self';" in policy, "style-src 'self' 'unsafe-inline';" in policy) == (True, True)
        for path in ("none", "page_files.py", "novnc/", "xterm/src/", "%2e%2e/app.py"):
            assert (await client.get(f"/console/{path}")).status_code == 404


async def test_sockets_count_as_connections_of_their_peer(front: Front) -> None:
    async with serving(front, ProxyLimits(), HttpTable(connections_per_peer=1)) as proxy:
        token = await proxy.token(await front.boot())
        for _ in "abc":  # each is released when it ends
            async with proxy.connect(token) as socket:
                assert (await proxy.refusal(token))[0] == 503
                await socket.send(b"still here\r")
                await hear(socket, b"still here")
            await socket.wait_closed()


async def test_an_upgrade_elsewhere_is_an_ordinary_request(proxy: Proxy) -> None:
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-key": "x", "sec-websocket-version": "13"}
    async with httpx.AsyncClient(base_url=proxy.url, headers=upgrade) as client:
        assert (await client.get("/")).json()["name"] == "whimbrel"
