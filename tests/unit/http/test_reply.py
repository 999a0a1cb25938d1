"""Encoding of replies: JSON, bytes, streams and lines."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from whimbrel.domain.errors import Unavailable
from whimbrel.http.reply import NO_CONTENT, Reply, reply_of


def sent(reply: Reply) -> tuple[int, dict[bytes, bytes], list[bytes]]:
    """Send a reply; return its status, headers and chunks."""
    messages: list[Any] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(reply.response({"x-id": "1"})({"type": "http"}, receive, send))
    head, *bodies = messages
    assert [each.get("more_body", False) for each in bodies] == [True] * (len(bodies) - 1) + [False]
    return head["status"], dict(head["headers"]), [each["body"] for each in bodies]


@pytest.mark.parametrize(
    ("reply", "status", "headers", "body"),
    [
        (Reply({"a": 1}), 200, {b"content-type": b"application/json", b"content-length": b"7"}, b'{"a":1}'),
        (Reply([], 300, {"X-Id": "2"}), 300, {b"content-type": b"application/json", b"content-length": b"2"}, b"[]"),
        (Reply(b"<p>", 404, {"content-type": "text/html"}), 404, {b"content-length": b"3"}, b"<p>"),
        (Reply(status=202), 202, {b"content-length": b"0"}, b""),
        (NO_CONTENT, 204, {}, b""),
    ],
)
def test_a_body_is_sent_with_its_length(reply: Reply, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
    own = {name.lower().encode(): value.encode() for name, value in reply.headers.items()}
    assert sent(reply) == (status, {b"x-id": b"1"} | headers | own, [body])


def test_an_answer_that_is_no_reply_is_a_body() -> None:
    assert reply_of({"a": 1}, 202) == Reply({"a": 1}, 202)
    assert reply_of(None) == Reply(None, 200)
    assert reply_of(Reply(headers={"x": "y"}), 202) == Reply(None, 202, {"x": "y"})
    assert reply_of(NO_CONTENT, 202) is NO_CONTENT


def test_a_stream_is_sent_in_chunks() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    assert sent(Reply(stream=chunks(), headers={"content-length": "6"}))[2] == [b"one", b"two", b""]


def test_lines_are_sent_as_they_come() -> None:
    async def two() -> AsyncIterator[Any]:
        yield {"done": 1}
        yield {"done": 2}

    assert sent(Reply(lines=two())) == (
        200,
        {b"x-id": b"1", b"content-type": b"application/x-ndjson"},
        [b'{"done":1}\n', b'{"done":2}\n', b""],
    )


@pytest.mark.parametrize(
    ("error", "words"), [(Unavailable("it does not answer"), "it does not answer"), (ValueError("x"), "unexpected")]
)
def test_an_error_in_lines_is_the_last_line(error: Exception, words: str) -> None:
    async def failing() -> AsyncIterator[Any]:
        yield {"done": 1}
        raise error

    with capture_logs() as logs:
        first, last, end = sent(Reply(lines=failing()))[2]
    assert (msgspec.json.decode(first), end) == ({"done": 1}, b"")
    assert words in msgspec.json.decode(last)["fault"]
    assert len(logs) == (0 if isinstance(error, Unavailable) else 1)
