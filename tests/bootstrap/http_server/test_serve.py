"""The HTTP door: taking a port, one path a service, ending in order."""

import asyncio
import logging
import socket

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from whimbrel.bootstrap import http_server
from whimbrel.domain.errors import Invalid, Refused


def test_a_port_in_use_is_said_with_what_to_do() -> None:
    with http_server.listen("127.0.0.1", 0) as endpoint:
        port = endpoint.getsockname()[1]
        with pytest.raises(Refused, match=rf"port {port}: the port is in use; .*--port"):
            http_server.listen("127.0.0.1", port)


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_what_is_no_port_is_refused(port: int) -> None:
    """The resolver takes a port modulo 65536: 99999 would listen at 34463."""
    with pytest.raises(Invalid, match=rf"{port} is no port: give --metrics-port a number from 0 to 65535"):
        http_server.listen("127.0.0.1", port, "--metrics-port")


async def test_a_client_is_refused_until_requests_are_answered() -> None:
    """A client that waits for a process that is starting is not connected to a socket that nothing reads yet."""
    endpoint = http_server.listen("127.0.0.1", 0)
    address = endpoint.getsockname()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    stop, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(http_server.serve(http_server.front({}), endpoint, stop, ready.set))
    await ready.wait()
    async with httpx.AsyncClient(base_url=http_server.url_of(endpoint)) as client:
        assert (await client.get("/")).status_code == 200
    stop.set()
    await serving
    http_server.listen(*address).close()  # although a connection to it has just ended


async def test_a_port_that_is_taken_between_bind_and_listen_is_said() -> None:
    endpoint = socket.socket()
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    endpoint.bind(("127.0.0.1", 0))
    with socket.create_server(endpoint.getsockname()), pytest.raises(Refused, match="the port is in use"):
        await http_server.serve(http_server.front({}), endpoint, asyncio.Event(), lambda: None)


async def test_a_client_that_dies_while_it_asks_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """A killed conductor left 80 lines of traceback in the log of the process with the agents."""

    async def story() -> None:
        reading, ended = asyncio.Event(), asyncio.Event()

        async def read(request: Request) -> Response:
            reading.set()
            try:
                await request.body()
            finally:
                ended.set()
            raise AssertionError("the body never comes whole")

        stop, ready, endpoint = asyncio.Event(), asyncio.Event(), http_server.listen("127.0.0.1", 0)
        app = http_server.front({"agents": Starlette(routes=[Route("/", read, methods=["POST"])])})
        serving = asyncio.create_task(http_server.serve(app, endpoint, stop, ready.set))
        await ready.wait()
        _, writer = await asyncio.open_connection(*endpoint.getsockname())
        writer.write(b"POST /agents HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\nhalf")
        await reading.wait()
        writer.close()
        await ended.wait()
        stop.set()
        await serving

    await story()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_address_of_another_machine_is_said() -> None:
    with pytest.raises(Refused, match=r"cannot listen at 192\.0\.2\.1 port 0: .*--host"):
        http_server.listen("192.0.2.1", 0)


def test_the_url_is_one_that_a_client_can_use() -> None:
    with http_server.listen("0.0.0.0", 0) as endpoint:
        assert http_server.url_of(endpoint) == f"http://127.0.0.1:{endpoint.getsockname()[1]}"


async def test_services_answer_below_their_paths_until_stopped() -> None:
    async def say(request: Request) -> Response:
        return PlainTextResponse(request.url.path)

    app = http_server.front({"compute": Starlette(routes=[Route("/{rest:path}", say)])})
    stop, ready = asyncio.Event(), asyncio.Event()
    endpoint: socket.socket = http_server.listen("127.0.0.1", 0)
    serving = asyncio.create_task(http_server.serve(app, endpoint, stop, ready.set))
    await ready.wait()
    async with httpx.AsyncClient(base_url=http_server.url_of(endpoint)) as client:
        assert (await client.get("/compute/v2.1/servers")).text == "/compute/v2.1/servers"
        assert (await client.get("/compute?a=b")).text == "/compute/"
        assert (await client.get("/")).json()["services"] == ["/compute"]
        assert (await client.get("/compute/")).text == "/compute/"
        for unknown in ("/nothing", "/nothing/compute/", "/computers", "/computers/1"):
            assert (await client.get(unknown)).status_code == 404, unknown
    stop.set()
    await serving
