"""Tokens of the embedded identity service: how one gets them, what they say, when they end."""

from typing import Any

import pytest

from tests.embedded.opened import Opened
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.ports.services.identity import Assignment

TOKENS = "/identity/v3/auth/tokens"
UNAUTHORIZED = {
    "error": {
        "code": 401,
        "title": "Unauthorized",
        "message": "The request you have made requires authentication.",
    }
}


def by_password(name: str = "ann", password: str | None = None, **scope: Any) -> dict[str, Any]:
    user = {"name": name, "domain": {"name": "Default"}, "password": password or f"secret of {name}"}
    auth: dict[str, Any] = {"identity": {"methods": ["password"], "password": {"user": user}}}
    return {"auth": {**auth, **scope}}


def in_project(**named: Any) -> dict[str, Any]:
    return {"project": named}


async def test_a_token_can_be_said_on_a_command_line(services: Opened) -> None:
    """What begins with a dash would be taken for an option."""
    for _ in range(20):
        answer = await services.ask("", "POST", TOKENS, by_password())
        assert answer.headers["X-Subject-Token"].isalnum()


@pytest.mark.parametrize(
    "scope",
    [
        {"scope": in_project(id="p1")},
        {"scope": in_project(name="name of p1", domain={"id": "default"})},
        {"scope": in_project(name="name of p1", domain={"name": "Default"})},
        {},  # his default project
    ],
)
async def test_a_password_gives_a_token_for_a_project(services: Opened, scope: dict[str, Any]) -> None:
    answer = await services.ask("", "POST", TOKENS, by_password(**scope))
    token = answer.json()["token"]
    assert answer.status_code == 201
    assert token["project"] == {
        "id": "p1", "name": "name of p1", "domain": {"id": "default", "name": "Default"},
    }  # fmt: skip
    assert token["user"]["id"] == "ann"
    assert [role["name"] for role in token["roles"]] == ["member", "reader"]
    assert [service["type"] for service in token["catalog"]] == ["identity", "image", "compute"]
    principal = await services.store.principal(answer.headers["X-Subject-Token"])
    assert principal is not None
    assert (principal.user_id, principal.project_id, set(principal.roles)) == ("ann", "p1", {"member", "reader"})


@pytest.mark.parametrize("scope", [{"scope": "unscoped"}, {"scope": {"unscoped": {}}}])
async def test_an_unscoped_token_opens_nothing_but_a_scoped_one(services: Opened, scope: dict[str, Any]) -> None:
    answer = await services.ask("", "POST", TOKENS, by_password("root", **scope))
    text = answer.headers["X-Subject-Token"]
    assert "project" not in answer.json()["token"]
    users = await services.client.get("/identity/v3/users", headers={"X-Auth-Token": text})
    assert users.status_code == 403
    images = await services.client.get("/image/v2/images", headers={"X-Auth-Token": text})
    assert images.status_code == 403
    proof = {"methods": ["token"], "token": {"id": text}}
    scoped = await services.ask("", "POST", TOKENS, {"auth": {"identity": proof, "scope": in_project(id="p0")}})
    assert scoped.status_code == 201
    assert scoped.json()["token"]["methods"] == ["token", "password"]
    assert scoped.json()["token"]["expires_at"] == answer.json()["token"]["expires_at"]
    assert scoped.json()["token"]["audit_ids"][1] == answer.json()["token"]["audit_ids"][0]


@pytest.mark.parametrize(
    "body",
    [
        by_password(password="wrong"),
        by_password("nobody"),
        by_password(scope=in_project(id="p2")),
        by_password(scope=in_project(id="nothing")),
        by_password(scope=in_project(name="nothing", domain={"id": "default"})),
        by_password(scope=in_project(name="name of p1", domain={"id": "elsewhere"})),
        {"auth": {"identity": {"methods": ["token"], "token": {"id": "made up"}}}},
    ],
)
async def test_every_wrong_proof_reads_the_same(services: Opened, body: dict[str, Any]) -> None:
    answer = await services.ask("", "POST", TOKENS, body)
    assert (answer.status_code, answer.json()) == (401, UNAUTHORIZED)
    assert answer.headers["WWW-Authenticate"] == 'Keystone uri="http://cloud/identity"'


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (None, 400),
        ({}, 400),
        ({"auth": 3}, 400),
        ({"auth": {"identity": {"methods": []}}}, 400),
        ({"auth": {"identity": {"methods": ["password"]}}}, 400),
        ({"auth": {"identity": {"methods": ["totp"]}}}, 401),
        (by_password(password="x" * 5000), 400),
        (by_password(password="a\0b"), 400),
        (by_password(password="x" * 200_000), 413),
        (by_password(scope={"system": {"all": True}}), 401),
        (by_password(scope={"project": {"name": "no domain"}}), 400),
    ],
)
async def test_nonsense_is_distinguished_from_a_wrong_proof(services: Opened, body: Any, status: int) -> None:
    answer = await services.ask("", "POST", TOKENS, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)


async def test_a_body_without_end_of_brackets_is_nonsense(services: Opened) -> None:
    body = b'{"auth": {"scope": {"system": ' + b'{"a":' * 20_000
    answer = await services.client.post(TOKENS, content=body)
    assert answer.status_code == 400


async def test_who_holds_a_token_may_look_at_it_and_end_it(services: Opened) -> None:
    mine = {"X_Subject_Token": "token of ann"}
    shown = await services.ask("ann", "GET", TOKENS, **mine)
    assert shown.json()["token"]["audit_ids"] == ["audit-ann"]
    assert (await services.ask("ann", "HEAD", TOKENS, **mine)).status_code == 200
    assert (await services.ask("ann", "DELETE", TOKENS, **mine)).status_code == 204
    assert (await services.ask("ann", "GET", TOKENS, **mine)).status_code == 401
    assert await services.store.principal("token of ann") is None


async def test_only_admins_and_services_look_at_other_tokens(services: Opened) -> None:
    anns = {"X_Subject_Token": "token of ann"}
    assert (await services.ask("bob", "GET", TOKENS, **anns)).status_code == 403
    assert (await services.ask("bob", "DELETE", TOKENS, **anns)).status_code == 403
    assert (await services.ask("", "GET", TOKENS, **anns)).status_code == 401
    shown = await services.ask("root", "GET", TOKENS + "?nocatalog", **anns)
    assert shown.json()["token"]["user"]["id"] == "ann"
    assert "catalog" not in shown.json()["token"]
    missing = await services.ask("root", "GET", TOKENS, X_Subject_Token="made up")
    assert (missing.status_code, missing.json()["error"]["message"]) == (404, "Could not find token.")


async def test_a_service_looks_at_other_tokens_and_revokes_none(services: Opened) -> None:
    """Source: the rules validate_token and revoke_token of Keystone 30."""
    await services.store.assign(Assignment(user_id=UserId("bob"), project_id=ProjectId("p2"), role_id="r-service"))
    anns = {"X_Subject_Token": "token of ann"}
    for method, status in (("GET", 200), ("HEAD", 200), ("DELETE", 403)):
        assert (await services.ask("bob", method, TOKENS, **anns)).status_code == status


async def test_a_token_ends_when_its_time_is_over(services: Opened) -> None:
    services.clock.advance(3599)
    assert await services.store.principal("token of ann") is not None
    services.clock.advance(1)
    assert await services.store.principal("token of ann") is None
    answer = await services.ask("ann", "GET", "/identity/v3/auth/projects")
    assert (answer.status_code, answer.json()) == (401, UNAUTHORIZED)


async def test_one_can_see_what_a_token_could_be_for(services: Opened) -> None:
    projects = (await services.ask("ann", "GET", "/identity/v3/auth/projects")).json()["projects"]
    assert [project["id"] for project in projects] == ["p1"]
    assert (await services.ask("ann", "GET", "/identity/v3/auth/domains")).json()["domains"] == []
    catalog = (await services.ask("ann", "GET", "/identity/v3/auth/catalog")).json()["catalog"]
    assert [place["interface"] for place in catalog[0]["endpoints"]] == ["public", "internal", "admin"]


async def test_version_documents_need_no_token(services: Opened) -> None:
    choices = await services.client.get("/identity")
    assert choices.status_code == 300
    link = choices.json()["versions"]["values"][0]["links"][0]["href"]
    assert link == "http://cloud/identity/v3/"
    assert (await services.client.get(link)).json()["version"]["status"] == "stable"
    assert (await services.client.get("/identity/v3")).status_code == 200
