"""The frame of all applications, and a table of routes without actions: matching, errors, bugs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from structlog.testing import capture_logs

from whimbrel.domain.errors import Conflict, Invalid, Refused, WorldError
from whimbrel.http.app import Shape, routed
from whimbrel.http.problem import Problem, problem_of
from whimbrel.http.reply import Reply
from whimbrel.http.request import Request
from whimbrel.http.routes import OPEN, Route

Handler = Callable[[Request], Awaitable[Reply]]


def named(name: str) -> Handler:
    async def answer(request: Request) -> Reply:
        return Reply([name, request.params])

    return answer


def failing(error: Exception) -> Handler:
    async def answer(request: Request) -> Reply:
        raise error

    return answer


async def admit(request: Request, route: Route) -> Request:
    if route.rule != "holder":
        raise Problem(401, "no token")
    return request


def translate(error: WorldError) -> Problem:
    return problem_of(error, ((Refused, 418),))


APP = routed(
    [
        Route("GET", "/", named("root"), OPEN),
        Route("GET", "/secret", named("secret"), "nobody"),
        *(
            Route(method, path, handler, "holder")
            for method, path, handler in (
                ("GET", "/things", named("list")),
                ("GET", "/things/detail", named("detail")),
                ("GET", "/things/{id}", named("show")),
                ("DELETE", "/things/{id}", named("delete")),
                ("GET", "/{project}/things", named("of a project")),
                ("GET", "/things/{id}/parts/{part}", named("part")),
                ("GET", "/conflict", failing(Conflict("again"))),
                ("GET", "/invalid", failing(Invalid("wrong"))),
                ("GET", "/http", failing(Problem(413, "large", headers={"retry-after": "0"}))),
                ("GET", "/bug", failing(ValueError("oh"))),
            )
        ),
    ],
    admit,
    Shape(
        refusal=lambda _, problem: Reply({"message": problem.message}, problem.status, problem.headers),
        translate=translate,
        headers=lambda _, reply: {"x-status": str(reply.status)},
        bug=lambda _: "a bug",
    ),
)


def ask(method: str, path: str) -> httpx.Response:
    async def story() -> httpx.Response:
        transport = httpx.ASGITransport(Starlette(routes=[Mount("/at", APP)]))
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
def test_a_request_matches_its_route(method: str, path: str, name: str, params: dict[str, Any]) -> None:
    answer = ask(method, path)
    assert (answer.status_code, answer.json()) == (200, [name, params])


def test_head_answers_like_get_without_the_body() -> None:
    answer = ask("HEAD", "/things")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("path", ["/nothing", "/things//parts/1", "/things/7/parts", "/things/7/parts/1/2"])
def test_no_such_path(path: str) -> None:
    assert ask("GET", path).status_code == 404


def test_no_such_method() -> None:
    answer = ask("PUT", "/things/detail")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET")


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/conflict", 409, "again"),
        ("/invalid", 418, "wrong"),
        ("/http", 413, "large"),
        ("/secret", 401, "no token"),
        ("/nothing", 404, "Not Found"),
    ],
)
def test_errors_have_the_shape_of_the_service(path: str, status: int, message: str) -> None:
    answer = ask("GET", path)
    assert (answer.status_code, answer.json()) == (status, {"message": message})
    assert answer.headers.get("retry-after") == ("0" if status == 413 else None)
    assert answer.headers["x-status"] == str(status)


def test_a_bug_is_answered_and_logged() -> None:
    with capture_logs() as logs:
        answer = ask("GET", "/bug")
    assert (answer.status_code, answer.json()) == (500, {"message": "a bug"})
    assert [(entry["event"], entry["path"]) for entry in logs] == [("request failed", "/at/bug")]
