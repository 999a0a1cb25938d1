"""Roles in the system and tokens for it, of the embedded identity service and of a real Keystone."""

import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.embedded.opened import opened
from tests.openstack_services import REAL, TIMEOUT_S, real_services

SYSTEM = {"system": {"all": True}}


@dataclass
class Service:
    """client has the URL of the API 3. administrator: a token. user, group: new ones, without any roles."""

    client: httpx.AsyncClient
    administrator: str
    user: str
    group: str
    project: str
    roles: dict[str, str]  # name -> id

    async def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> httpx.Response:
        return await self.client.request(
            method, path, json=body, headers={"X-Auth-Token": token or self.administrator, "accept": "application/json"}
        )

    async def log_in(self, scope: Any) -> httpx.Response:
        user = {"id": self.user, "password": "secret"}
        identity = {"methods": ["password"], "password": {"user": user}}
        return await self.client.post("auth/tokens", json={"auth": {"identity": identity, "scope": scope}})

    async def token(self) -> str:
        answer = await self.log_in(SYSTEM)
        assert answer.status_code == 201, answer.text
        return answer.headers["x-subject-token"]

    async def assign(self, role: str) -> None:
        assert (await self.ask("PUT", self.of_user(role))).status_code == 204

    def of_user(self, role: str) -> str:
        return f"system/users/{self.user}/roles/{self.roles[role]}"

    def of_group(self, role: str) -> str:
        return f"system/groups/{self.group}/roles/{self.roles[role]}"

    async def assignments(self, query: str) -> list[dict[str, Any]]:
        answer = await self.ask("GET", f"role_assignments?{query}")
        lines: list[dict[str, Any]] = answer.json()["role_assignments"]
        return lines


@pytest.fixture(params=["embedded", REAL])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    async with AsyncExitStack() as ending:
        if request.param == "real":
            admin = real_services().cloud("admin")
            url, token, project = f"{admin.login.auth_url}/v3/", admin.token, admin.project_id
            client = await ending.enter_async_context(httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S))
        else:
            services = await ending.enter_async_context(opened(tmp_path))
            client, token, project = services.client, "token of root", "p0"
            client.base_url = httpx.URL("http://cloud/identity/v3/")
        service = Service(client, token, "", "", project, {})
        service.roles = {role["name"]: role["id"] for role in (await service.ask("GET", "roles")).json()["roles"]}
        new = {"name": f"new-{uuid.uuid4().hex}", "domain_id": "default"}
        made = await service.ask("POST", "users", {"user": new | {"password": "secret"}})
        service.user = made.json()["user"]["id"]
        service.group = (await service.ask("POST", "groups", {"group": new})).json()["group"]["id"]
        yield service
        for path in (f"groups/{service.group}", f"users/{service.user}"):
            assert (await service.ask("DELETE", path)).status_code == 204


async def test_a_role_in_the_system_is_assigned_and_removed(service: Service) -> None:
    for member, group in ((service.of_user("member"), False), (service.of_group("member"), True)):
        roles = member.rpartition("/")[0]
        assert (await service.ask("GET", roles)).json()["roles"] == []
        for method in ("GET", "HEAD", "DELETE"):
            assert (await service.ask(method, member)).status_code == 404
        for _ in range(2):
            assert (await service.ask("PUT", member)).status_code == 204
        assert [each["name"] for each in (await service.ask("GET", roles)).json()["roles"]] == ["member"]
        for method in ("GET", "HEAD"):
            assert (await service.ask(method, member)).status_code == 204
        (line,) = await service.assignments(f"scope.system=all&{'group' if group else 'user'}.id={roles.split('/')[2]}")
        assert line["scope"] == SYSTEM
        assert line["links"]["assignment"].endswith(f"/v3/{member}")
        assert (await service.ask("DELETE", member)).status_code == 204
        assert (await service.ask("DELETE", member)).status_code == 404


@pytest.mark.parametrize("holders", ["users", "groups"])
async def test_unknown_holders_and_roles(service: Service, holders: str) -> None:
    reader = service.roles["reader"]
    holder = service.user if holders == "users" else service.group
    assert (await service.ask("PUT", f"system/{holders}/{holder}/roles/nothing")).status_code == 404
    assert (await service.ask("GET", f"system/{holders}/nobody/roles")).status_code == 404
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        assert (await service.ask(method, f"system/{holders}/nobody/roles/{reader}")).status_code == 404


async def test_a_token_for_the_system_needs_a_role_there(service: Service) -> None:
    assert (await service.log_in(SYSTEM)).status_code == 401
    in_project = f"projects/{service.project}/users/{service.user}/roles/{service.roles['admin']}"
    assert (await service.ask("PUT", in_project)).status_code == 204
    assert (await service.log_in(SYSTEM)).status_code == 401


async def test_what_a_token_for_the_system_shows(service: Service) -> None:
    await service.assign("member")
    answer = await service.log_in(SYSTEM)
    token, text = answer.json()["token"], answer.headers["x-subject-token"]
    assert token["system"] == {"all": True}
    assert {role["name"] for role in token["roles"]} == {"member", "reader"}
    assert {"project", "domain", "is_domain"}.isdisjoint(token)
    assert "identity" in {each["type"] for each in token["catalog"]}
    headers = {"X-Auth-Token": text, "X-Subject-Token": text}
    shown = (await service.client.get("auth/tokens", headers=headers)).json()["token"]
    assert (shown["system"], shown["roles"]) == (token["system"], token["roles"])
    bare = (await service.log_in({"unscoped": {}})).json()["token"]
    assert {"system", "roles", "catalog"}.isdisjoint(bare)


async def test_a_token_is_exchanged_for_one_for_the_system(service: Service) -> None:
    await service.assign("reader")
    for scope in ({"unscoped": {}}, SYSTEM):
        proof = {"methods": ["token"], "token": {"id": (await service.log_in(scope)).headers["x-subject-token"]}}
        answer = await service.client.post("auth/tokens", json={"auth": {"identity": proof, "scope": SYSTEM}})
        assert (answer.status_code, answer.json()["token"]["system"]) == (201, {"all": True})


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        ({"system": {"all": False}}, 201),
        ({"system": {}}, 201),
        ({"system": {"part": True}}, 201),
        ({"system": {"all": "yes"}}, 400),
        ({"system": True}, 400),
        ({**SYSTEM, "project": {"id": "p"}}, 400),
        ({}, 400),
    ],
)
async def test_scopes(service: Service, scope: Any, status: int) -> None:
    await service.assign("reader")
    assert (await service.log_in(scope)).status_code == status


async def test_members_of_a_group_have_its_roles(service: Service) -> None:
    assert (await service.ask("PUT", service.of_group("reader"))).status_code == 204
    assert (await service.log_in(SYSTEM)).status_code == 401
    assert (await service.ask("PUT", f"groups/{service.group}/users/{service.user}")).status_code == 204
    token = await service.token()
    assert (await service.ask("GET", "users", token=token)).status_code == 200
    assert (await service.ask("DELETE", f"groups/{service.group}/users/{service.user}")).status_code == 204
    assert (await service.log_in(SYSTEM)).status_code == 401


READS = (
    *("users", "projects", "roles", "domains", "groups", "services", "endpoints", "role_assignments", "credentials"),
    *("registered_limits", "limits", "auth/projects", "auth/domains", "auth/system"),
)


async def test_a_reader_in_the_system_reads_and_changes_nothing(service: Service) -> None:
    await service.assign("reader")
    token = await service.token()
    for path in (*READS, f"users/{service.user}", f"projects/{service.project}", f"groups/{service.group}/users"):
        assert (await service.ask("GET", path, token=token)).status_code == 200, path
    for method, path, body in (
        ("POST", "users", {"user": {"name": "other"}}),
        ("POST", "projects", {"project": {"name": "other"}}),
        ("PUT", service.of_user("admin"), None),
        ("DELETE", service.of_user("reader"), None),
        ("PATCH", f"users/{service.user}", {"user": {"description": "other"}}),
        ("POST", f"users/{service.user}/application_credentials", {"application_credential": {"name": "other"}}),
    ):
        assert (await service.ask(method, path, body, token=token)).status_code == 403, path
    assert (await service.ask("GET", "auth/catalog", token=token)).status_code == 403
    others = {"X-Auth-Token": token, "X-Subject-Token": service.administrator}
    assert (await service.client.get("auth/tokens", headers=others)).status_code == 200
    assert (await service.client.delete("auth/tokens", headers=others)).status_code == 403


async def test_an_administrator_of_the_system_administers(service: Service) -> None:
    await service.assign("admin")
    token = await service.token()
    assert (await service.ask("PUT", service.of_group("reader"), token=token)).status_code == 204
    assert (await service.ask("DELETE", service.of_group("reader"), token=token)).status_code == 204


async def test_a_token_ends_with_the_last_role_in_the_system(service: Service) -> None:
    await service.assign("reader")
    token = await service.token()
    assert (await service.ask("GET", "auth/system", token=token)).json()["system"] == [{"all": True}]
    assert (await service.ask("DELETE", service.of_user("reader"))).status_code == 204
    assert (await service.ask("GET", "users", token=token)).status_code in (401, 403)  # Keystone keeps it without roles
    assert (await service.log_in(SYSTEM)).status_code == 401


async def test_assignments_in_the_system_are_listed_with_those_in_projects(service: Service) -> None:
    await service.assign("member")
    in_project = f"projects/{service.project}/users/{service.user}/roles/{service.roles['reader']}"
    assert (await service.ask("PUT", in_project)).status_code == 204
    mine = f"user.id={service.user}"
    lines = await service.assignments(f"{mine}&include_names")
    assert sorted((line["role"]["name"], *line["scope"]) for line in lines) == [
        ("member", "system"),
        ("reader", "project"),
    ]
    assert {line["user"]["domain"]["name"] for line in lines} == {"Default"}
    for query, expected in (
        ("scope.system=all", ["member"]),
        ("scope.system", ["member", "reader"]),
        ("scope.system=other", ["member", "reader"]),
        (f"scope.project.id={service.project}", ["reader"]),
        (f"role.id={service.roles['member']}", ["member"]),
        (f"scope.system=all&role.id={service.roles['reader']}", []),
        ("effective", ["reader"]),  # of projects alone, as Keystone has it
        ("effective&scope.system=all", ["reader"]),
    ):
        found = await service.assignments(f"{mine}&include_names&{query}")
        assert sorted(line["role"]["name"] for line in found) == expected, query
    for other in ("project", "domain"):
        refused = await service.ask("GET", f"role_assignments?scope.system=all&scope.{other}.id=x")
        assert (refused.status_code, f"Specify system or {other}, not both" in refused.text) == (400, True)
