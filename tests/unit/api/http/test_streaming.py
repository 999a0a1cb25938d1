"""An answer in lines tells at its end what went wrong, for its status is said already."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from whimbrel.api.http.streaming import MEDIA_TYPE, send_lines
from whimbrel.domain.errors import Unavailable


def sent(lines: AsyncIterator[Any]) -> tuple[Any, list[Any]]:
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(send_lines(send, [(b"x-id", b"1")], lines))
    head, *bodies = messages
    assert not bodies[-1].get("more_body")
    whole = b"".join(each["body"] for each in bodies)
    return head, [msgspec.json.decode(line) for line in whole.splitlines()]


async def fails_with(error: Exception) -> AsyncIterator[Any]:
    yield {"done": 1}
    raise error


def test_lines_are_sent_as_they_come() -> None:
    async def two() -> AsyncIterator[Any]:
        yield {"done": 1}
        yield {"done": 2}

    head, lines = sent(two())
    assert (head["status"], dict(head["headers"])) == (200, {b"x-id": b"1", b"content-type": MEDIA_TYPE.encode()})
    assert lines == [{"done": 1}, {"done": 2}]


@pytest.mark.parametrize(
    ("error", "words"), [(Unavailable("it does not answer"), "it does not answer"), (ValueError("x"), "unexpected")]
)
def test_what_goes_wrong_is_the_last_line(error: Exception, words: str) -> None:
    _, [first, last] = sent(fails_with(error))
    assert first == {"done": 1}
    assert words in last["fault"]
