"""Reading of requests: bodies within limits, and addresses for links."""

from collections.abc import Sequence
from typing import Any

import pytest

from whimbrel.http.problem import Problem
from whimbrel.http.request import Request


def request(chunks: Sequence[bytes] = (), headers: Sequence[tuple[bytes, bytes]] = (), **scope: Any) -> Request:
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": "http.request", "body": b""})

    async def receive() -> Any:
        return messages.pop(0)

    made = {"type": "http", "method": "POST", "path": "/at/things", "query_string": b"", "headers": list(headers)}
    return Request({**made, "root_path": "/at", **scope}, receive, "req-1")


async def test_a_body_is_read_whole() -> None:
    assert await request([b"[1,", b"2]"]).decoded(list[int], 5) == [1, 2]


@pytest.mark.parametrize(
    ("chunks", "headers", "status"),
    [
        ([b"[1, ", b"2]"], [], 413),
        ([], [(b"content-length", b"6")], 413),
        ([], [(b"content-length", b"-1")], 413),
        ([b"{"], [], 400),
        ([b'{"a"'], [], 400),
        ([b"\xff"], [], 400),
        ([], [], 400),
        ([b'["x"]'], [], 400),
    ],
)
async def test_a_body_is_refused(chunks: Sequence[bytes], headers: Sequence[tuple[bytes, bytes]], status: int) -> None:
    with pytest.raises(Problem) as refused:
        await request(chunks, headers).decoded(list[int], 5)
    assert refused.value.status == status


async def test_a_nul_character_is_refused() -> None:
    with pytest.raises(Problem, match="NUL"):
        await request([b'["\\u0000"]']).decoded(list[str], 50)
    assert request(path="/at/\0").has_nul
    assert request(query_string=b"a=%00").has_nul
    assert not request(query_string=b"a=b").has_nul


@pytest.mark.parametrize(
    ("headers", "scope", "url"),
    [
        ([(b"host", b"cloud:8774")], {}, "http://cloud:8774/at"),
        ([(b"host", b"cloud")], {"scheme": "https"}, "https://cloud/at"),
        ([], {"server": ("10.0.0.1", 80)}, "http://10.0.0.1:80/at"),
        ([], {"server": ("/run/socket", None)}, "http:///run/socket/at"),
        ([], {}, "http://localhost/at"),
    ],
)
def test_links_begin_with_the_address_that_the_client_used(
    headers: Sequence[tuple[bytes, bytes]], scope: dict[str, Any], url: str
) -> None:
    made = request(headers=headers, **scope)
    assert (made.root_url, made.path) == (url, "/things")
