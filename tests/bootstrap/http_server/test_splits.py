"""However requests are cut into packets, and however many come together, each is answered as it was sent."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bootstrap.http_server.test_timers import Connection
from tests.depth import examples
from tests.simulated_time import anyio_backend
from whimbrel.bootstrap.http_server.limited_protocol import PIPELINED

__all__ = ["anyio_backend"]

SIZES = st.one_of(st.integers(0, 10), st.integers(0, 150_000))
HEADERS = st.one_of(st.integers(0, 10), st.integers(0, 60_000))


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, int]:
    """Draw a request, and the size of its body."""
    size = draw(SIZES)
    head = b"PUT / HTTP/1.1\r\nHost: x\r\nX-Long: %s\r\n" % (b"a" * draw(HEADERS))
    if draw(st.booleans()):
        return head + b"Content-Length: %d\r\n\r\n%s" % (size, b"b" * size), size
    chunk = draw(st.integers(1, 100_000))
    sizes = [min(chunk, size - at) for at in range(0, size, max(chunk, size // 20))] if size else []
    body = b"".join(b"%x\r\n%s\r\n" % (each, b"c" * each) for each in sizes)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n", sum(sizes)


@settings(max_examples=examples(60), deadline=None)
@given(
    sent=st.lists(requests(), min_size=1, max_size=min(6, PIPELINED)),
    cuts=st.lists(st.one_of(st.integers(1, 50), st.integers(1, 260_000)), min_size=1, max_size=20),
)
async def test_requests_are_understood_however_they_are_cut(sent: list[tuple[bytes, int]], cuts: list[int]) -> None:
    connection = Connection()
    data, at = b"".join(request for request, _ in sent), 0
    while at < len(data):
        step = cuts.pop(0) if cuts else 260_000
        assert await connection.send(data[at : at + step]), connection.answer
        at += step
    await asyncio.sleep(60)  # all are answered, and the connection is not closed for being idle
    assert not connection.wire.is_over
    bodies = [part.split(b"\r\n\r\n")[1] for part in connection.wire.written.split(b"HTTP/1.1 ")[1:]]
    assert bodies == [b"%d" % size for _, size in sent]
