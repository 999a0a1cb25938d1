"""The door that the embedded services share: which line a request means, and what errors become."""

import asyncio
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount

from whimbrel.domain.errors import Conflict, Invalid, Refused
from whimbrel.embedded.endpoint import App, Endpoint, Manners, json


def named(name: str) -> Endpoint:
    async def answer(request: Request) -> Response:
        return json([name, request.path_params])

    return answer


def failing(error: Exception) -> Endpoint:
    async def answer(request: Request) -> Response:
        raise error

    return answer


def say(request: Request, status: int, message: str, error: Exception) -> Response:
    return json({"said": message}, status)


APP = App(
    [
        ("GET", "/", named("root")),
        ("GET", "/things", named("list")),
        ("GET", "/things/detail", named("detail")),
        ("GET", "/things/{id}", named("show")),
        ("DELETE", "/things/{id}", named("delete")),
        ("GET", "/{project}/things", named("of a project")),
        ("GET", "/things/{id}/parts/{part}", named("part")),
        ("GET", "/conflict", failing(Conflict("again"))),
        ("GET", "/invalid", failing(Invalid("wrong"))),
        ("GET", "/http", failing(HTTPException(413, "large", {"Retry-After": "0"}))),
        ("GET", "/bug", failing(ValueError("oh"))),
    ],
    Manners([(Conflict, 409), (Refused, 400)], say),
)


def ask(method: str, path: str, *, raises: bool = True) -> httpx.Response:
    async def story() -> httpx.Response:
        transport = httpx.ASGITransport(Starlette(routes=[Mount("/at", APP)]), raise_app_exceptions=raises)
        async with httpx.AsyncClient(transport=transport, base_url="http://cloud/at") as client:
            return await client.request(method, path)

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("method", "path", "name", "params"),
    [
        ("GET", "/", "root", {}),
        ("GET", "/things", "list", {}),
        ("GET", "/things/", "list", {}),
        ("GET", "/things/detail", "detail", {}),
        ("GET", "/things/7", "show", {"id": "7"}),
        ("DELETE", "/things/detail", "delete", {"id": "detail"}),
        ("GET", "/things/things", "show", {"id": "things"}),
        ("GET", "/p/things", "of a project", {"project": "p"}),
        ("GET", "/things/7/parts/a%20b", "part", {"id": "7", "part": "a b"}),
    ],
)
def test_the_line_that_a_request_means(method: str, path: str, name: str, params: dict[str, Any]) -> None:
    answer = ask(method, path)
    assert (answer.status_code, answer.json()) == (200, [name, params])


def test_what_can_be_read_can_be_asked_for_without_its_body() -> None:
    answer = ask("HEAD", "/things")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("path", ["/nothing", "/things//parts/1", "/things/7/parts", "/things/7/parts/1/2"])
def test_no_such_path(path: str) -> None:
    assert ask("GET", path).status_code == 404


def test_no_such_method() -> None:
    answer = ask("PUT", "/things/detail")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET")


@pytest.mark.parametrize(
    ("path", "status", "said"), [("/conflict", 409, "again"), ("/invalid", 400, "wrong"), ("/http", 413, "large")]
)
def test_what_errors_become(path: str, status: int, said: str) -> None:
    answer = ask("GET", path)
    assert (answer.status_code, answer.json()) == (status, {"said": said})
    assert answer.headers.get("retry-after") == ("0" if status == 413 else None)


def test_a_bug_is_answered_and_told() -> None:
    assert ask("GET", "/bug", raises=False).status_code == 500
    with pytest.raises(ValueError, match="oh"):
        ask("GET", "/bug")
