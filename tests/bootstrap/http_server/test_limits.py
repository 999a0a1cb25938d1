"""What a client may send at most, and hold open, over real sockets."""

import pytest

from tests.bootstrap.http_server.raw_server import Server, with_server
from whimbrel.bootstrap.http_server.limited_protocol import PIPELINED

GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
SHORT_S = 0.02  # how long a client that does nothing more may take
LONG_S = 3600.0
PATIENT = {"header_timeout_s": LONG_S, "body_timeout_s": LONG_S, "idle_timeout_s": LONG_S, "write_timeout_s": LONG_S}


@with_server(**PATIENT)
async def test_a_header_without_an_end_is_refused_after_its_limit(server: Server) -> None:
    client = await server.connect()
    await client.send(GET + b"X-Long: ")
    sent = await client.flood(b"a" * 65536, times=1024)
    assert sent < 1024 or await client.answer() == (
        431,
        b"The request line and the headers are larger than 65536 bytes.",
    )
    assert await client.ended()
    assert server.seen == []


@with_server(**PATIENT)
async def test_the_refusal_of_large_headers_is_read(server: Server) -> None:
    client = await server.connect()
    assert await client.ask(GET + b"X-Long: " + b"a" * 70_000) == 431
    assert await client.ended()


@with_server(**PATIENT)
async def test_many_small_headers_are_refused_together(server: Server) -> None:
    for lines in (b"X-Small: a\r\n" * 129, b"".join(b"X-%d: %s\r\n" % (n, b"a" * 1000) for n in range(100))):
        client = await server.connect()
        assert await client.ask(GET + lines + b"\r\n") == 431
        assert await client.ended()
    assert server.seen == []


@with_server(**PATIENT)
async def test_headers_up_to_the_limits_are_accepted(server: Server) -> None:
    client = await server.connect()
    assert await client.ask(GET + b"X-Long: " + b"a" * 60_000 + b"\r\n\r\n") == 200
    assert await client.ask(GET + b"X-Small: a\r\n" * 127 + b"\r\n") == 200


@with_server(**PATIENT)
async def test_a_long_url_is_refused(server: Server) -> None:
    client = await server.connect()
    assert await client.ask(b"GET /" + b"a" * 16_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n") == 200
    assert await client.ask(b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n") == 414
    assert await client.ended()


@pytest.mark.parametrize("name", [b"X-Auth-Token", b"Authorization", b"X-Subject-Token", b"Host"])
def test_a_header_that_says_who_asks_is_there_once(name: bytes) -> None:
    @with_server(**PATIENT)
    async def story(server: Server) -> None:
        client = await server.connect()
        lines = name + b": a\r\n" + name.lower() + b": a\r\n"
        assert await client.ask(b"GET / HTTP/1.1\r\n" + lines + b"\r\n") == 400
        assert server.seen == []

    story()


@with_server(**PATIENT)
async def test_what_follows_a_chunked_body_is_limited(server: Server) -> None:
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n"
    for endless in (b"0\r\nX-Trailer: ", b"5;extension="):
        client = await server.connect()
        await client.send(chunked + endless)
        sent = await client.flood(b"a" * 65536, times=1024)
        assert sent < 1024 or (await client.answer())[0] == 431
        assert await client.ended()


@with_server(**PATIENT)
async def test_trailers_do_not_become_headers(server: Server) -> None:
    client = await server.connect()
    await client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Auth-Token: a\r\n\r\n")
    head = await client.reader.readuntil(b"\r\n\r\n")
    assert b"x-headers: 2\r\n" in head
    assert await client.reader.readexactly(5) == b"hello"


@with_server(**PATIENT)
async def test_bodies_are_as_long_as_the_application_wants(server: Server) -> None:
    client = await server.connect()
    chunk = b"%x\r\n%s\r\n" % (100_000, b"a" * 100_000)
    await client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 20 + b"0\r\n\r\n")
    assert len((await client.answer())[1]) == 2_000_000
    await client.send(POST + b"Content-Length: 1000000\r\n\r\n" + b"a" * 1_000_000)
    assert len((await client.answer())[1]) == 1_000_000


@with_server(**PATIENT)
async def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    client = await server.connect()
    bodies = [b"%d" % number for number in range(PIPELINED)]
    await client.send(b"".join(POST + b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies))
    assert [await client.answer() for _ in bodies] == [(200, body) for body in bodies]


@with_server(**PATIENT)
async def test_a_flood_of_pipelined_requests_ends_the_connection(server: Server) -> None:
    client = await server.connect()
    await client.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
    assert await client.ended()
    assert server.seen in ([], ["/wait"])


@with_server(**PATIENT)
async def test_what_is_no_http_is_refused(server: Server) -> None:
    for nonsense in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"):
        client = await server.connect()
        assert await client.ask(nonsense) == 400
        assert await client.ended()


@with_server(**{**PATIENT, "connections_per_peer": 3})
async def test_connections_of_a_peer_are_limited_and_come_free_again(server: Server) -> None:
    clients = [await server.connect() for _ in range(3)]
    for client in clients:
        assert await client.ask(GET + b"\r\n") == 200
    assert (await (await server.connect()).answer())[0] == 503
    await clients.pop().close()
    while await (further := await server.connect()).ask(GET + b"\r\n") != 200:
        pass  # the server has not seen the end of the other one yet
    assert (await (await server.connect()).answer())[0] == 503
    await further.close()


@with_server(**{**PATIENT, "connections_per_peer": 1, "trusted_proxies": ("127.0.0.1",)})
async def test_a_proxy_has_as_many_connections_as_it_needs(server: Server) -> None:
    for client in [await server.connect() for _ in range(3)]:
        assert await client.ask(GET + b"\r\n") == 200


@with_server(**{**PATIENT, "connections": 2})
async def test_connections_of_all_peers_are_limited(server: Server) -> None:
    clients = [await server.connect() for _ in range(2)]
    for client in clients:
        assert await client.ask(GET + b"\r\n") == 200
    assert (await (await server.connect()).answer())[0] == 503


# Time. Only clients that do nothing more are late here: nobody is late because the machine is slow.


@with_server(**{**PATIENT, "header_timeout_s": SHORT_S})
async def test_half_a_request_is_ended(server: Server) -> None:
    for half in (b"G", b"\r\n", GET, GET + b"X-Half: "):
        client = await server.connect()
        assert await client.ask(half) == 408
        assert await client.ended()
    unreachable = await server.connect()
    assert await unreachable.answer() == (0, b"")


@with_server(**{**PATIENT, "header_timeout_s": SHORT_S})
async def test_half_a_further_request_is_ended(server: Server) -> None:
    client = await server.connect()
    assert await client.ask(GET + b"\r\n" + GET) == 200
    assert await client.answer() == (408, b"The request did not arrive in time.")
    assert await client.ended()


@with_server(**{**PATIENT, "header_timeout_s": SHORT_S})
async def test_an_answer_that_takes_long_is_not_ended_by_the_timer_of_headers(server: Server) -> None:
    client = await server.connect()
    await client.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n" + GET)
    other = await server.connect()
    assert await other.ask(GET) == 408  # so the time of the first one is over too
    server.go_on.set()
    assert await client.answer() == (200, b"")
    assert (await client.answer())[0] == 408


@with_server(**{**PATIENT, "body_timeout_s": SHORT_S})
async def test_half_a_body_is_ended_and_the_application_told(server: Server) -> None:
    for length in (b"Content-Length: 10\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n5\r\n"):
        client = await server.connect()
        assert await client.ask(POST + length + b"abc") == 408
        await server.disconnected.wait()
        assert await client.ended()


@with_server(**{**PATIENT, "idle_timeout_s": SHORT_S})
async def test_an_idle_connection_is_closed(server: Server) -> None:
    client = await server.connect()
    assert await client.ask(GET + b"\r\n") == 200
    assert await client.answer() == (0, b"")


@with_server(**{**PATIENT, "write_timeout_s": SHORT_S})
async def test_who_does_not_take_the_answer_is_left(server: Server) -> None:
    client = await server.connect()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    await server.large_answer_ended.wait()


@with_server(**{**PATIENT, "header_timeout_s": SHORT_S, "idle_timeout_s": SHORT_S})
async def test_a_request_for_another_protocol_is_answered_and_its_connection_ends(server: Server) -> None:
    upgrade = GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    for rest in (b"", b"\x81\x85", GET):
        client = await server.connect()
        assert await client.ask(upgrade + rest) == 200
        assert await client.ended()
