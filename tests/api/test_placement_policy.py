"""Who may do what with Placement: both sets of defaults, callers who are believed, and an operator's own rules."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from tests.api.placement_client import Counting
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.api.http import policy as compute
from whimbrel.domain.errors import Invalid
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.http.policy import Policy
from whimbrel.http.problem import Problem
from whimbrel.placement_api.app import placement_app
from whimbrel.placement_api.policy import DEFAULTS, RULES, Defaults
from whimbrel.placement_api.principals import Access, access
from whimbrel.placement_api.routes import ROUTES
from whimbrel.ports.services.identity import Principal

LIST = "placement:resource_providers:list"
RESHAPE = "placement:reshaper:reshape"
USAGES = "placement:usages"


def principal(roles: str, project: str = "mine") -> Principal:
    return Principal(
        user_id=UserId("me"), user_name="me", project_id=ProjectId(project), roles=frozenset(roles.split("+"))
    )


def allows(rights: Access, rule: str, who: Principal, project: str | None = None) -> bool:
    try:
        rights.check(rule, who, project)
    except Problem as problem:
        return problem.status != 403
    return True


@pytest.mark.parametrize(
    ("rule", "roles", "project", "legacy", "secure"),
    [
        (LIST, "admin", None, True, True),
        (LIST, "service", None, True, True),
        (LIST, "member+reader", None, False, False),
        (LIST, "reader", None, False, False),
        (LIST, "", None, False, False),
        (RESHAPE, "admin+member+reader", None, True, False),
        (RESHAPE, "service", None, True, True),
        (RESHAPE, "reader", None, False, False),
        (USAGES, "admin", "yours", True, True),
        (USAGES, "service", "yours", True, True),
        (USAGES, "member+reader", "mine", True, True),
        (USAGES, "reader", "yours", False, False),
        (USAGES, "member", "mine", False, False),
    ],
)
def test_the_defaults(rule: str, roles: str, project: str | None, legacy: bool, secure: bool) -> None:
    assert allows(access("legacy"), rule, principal(roles), project) is legacy
    assert allows(access("secure-rbac"), rule, principal(roles), project) is secure


def test_no_is_said_with_the_rule_that_says_it() -> None:
    with pytest.raises(Problem, match=f"Policy does not allow {LIST} to be performed.") as no:
        access("legacy").check(LIST, principal("member"), None)
    assert no.value.status == 403


@pytest.mark.parametrize("defaults", DEFAULTS)
def test_a_token_for_no_project_does_not_count(defaults: Defaults) -> None:
    assert not allows(access(defaults), LIST, principal("admin+member+reader+service", project=""))


@pytest.mark.parametrize("defaults", DEFAULTS)
def test_every_line_of_the_routes_has_a_rule_of_the_table(defaults: Defaults) -> None:
    assert {route.rule for route in ROUTES} == set(RULES)
    assert set(RULES) < set(DEFAULTS[defaults])


def test_a_file_changes_any_rule(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f'"{LIST}": "role:reader and project_id:%(project_id)s"\nadmin_or_service_api: role:boss\n')
    rights = access("secure-rbac", Policy.load(DEFAULTS["secure-rbac"], file))
    assert allows(rights, LIST, principal("reader"))
    assert not allows(rights, LIST, principal("admin"))
    assert allows(rights, "placement:traits:list", principal("boss"))
    assert not allows(rights, "placement:traits:list", principal("admin"))


@pytest.mark.parametrize("rule", ["role:admin", "role:admin and system_scope:all", "@"])
def test_a_token_for_the_system_is_refused_whatever_a_file_says(tmp_path: Path, rule: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f'"{LIST}": "{rule}"\n')
    policy = Policy.load(DEFAULTS["legacy"], file)
    for_a_project = principal("admin")
    assert policy.allows(LIST, for_a_project, {}) is ("system_scope" not in rule)
    assert not policy.allows(LIST, replace(for_a_project, project_id=ProjectId(""), system_scope="all"), {})


@pytest.mark.parametrize("rule", RULES)
def test_with_legacy_an_administrator_may_do_everything(rule: str) -> None:
    assert allows(access("legacy"), rule, principal("admin"), "yours")
    assert allows(access("secure-rbac"), rule, principal("service"), "yours")
    assert not allows(access("legacy"), rule, principal("member"), "yours")


def test_a_rule_that_placement_does_not_have_is_named(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("placement:resource_provider:list: '@'\n")
    with pytest.raises(Invalid, match="'placement:resource_provider:list'"):
        Policy.load(DEFAULTS["legacy"], file)


def test_a_cloud_has_one_file_for_placement_and_compute() -> None:
    shared = set(DEFAULTS["legacy"]) & set(compute.DEFAULTS)
    assert shared == {"service_api", "project_reader_api"}
    assert all(DEFAULTS["legacy"][name] == compute.DEFAULTS[name] for name in shared)


def statuses(defaults: Defaults, *asked: tuple[str, Mapping[str, str]]) -> list[int]:
    """Ask a Placement that believes everybody: path, headers."""

    async def main() -> list[int]:
        database = open_database("sqlite://", "placement")
        await create_all(database, "placement")
        app = placement_app(SqlPlacement(database), None, Counting(), Counting(), rights=access(defaults))
        transport = httpx.ASGITransport(app)
        always = {"openstack-api-version": "placement latest"}
        async with httpx.AsyncClient(transport=transport, base_url="http://placement") as http:
            found = [(await http.get(path, headers=always | dict(sent))).status_code for path, sent in asked]
        await database.close()
        return found

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"x-auth-token": ""}, 401),
        ({"x-roles": "admin"}, 401),
        ({"x-auth-token": "admin"}, 200),
        ({"x-auth-token": "admin:project"}, 200),
        ({"x-auth-token": "notused"}, 200),
        ({"x-auth-token": "user"}, 403),
        ({"x-auth-token": "user:project"}, 403),
        ({"x-auth-token": "user", "x-roles": "member, Admin"}, 200),
        ({"x-auth-token": "user", "x-roles": "service"}, 200),
        ({"x-auth-token": "admin", "x-roles": "member,reader"}, 403),
        ({"x-auth-token": "admin", "x-roles": ""}, 403),
        ({"x-auth-token": "admin", "openstack-system-scope": "all"}, 403),
    ],
)
def test_callers_are_believed(headers: Mapping[str, str], status: int) -> None:
    assert statuses("legacy", ("/resource_providers", headers), ("/", {})) == [status, 200]


def test_with_secure_rbac_a_reader_sees_his_own_project_only() -> None:
    def reader(token: str, **more: str) -> Mapping[str, str]:
        return {"x-auth-token": token, "x-roles": "reader", **more}

    path = "/usages?project_id=p1"
    assert statuses(
        "secure-rbac",
        (path, reader("me:p1")),
        (path, reader("me", **{"x-project-id": "p1"})),
        (path, reader("me:p2")),
        (path, reader("me:p1", **{"openstack-system-scope": "all"})),
        (f"{path}&project_id=p2", reader("me:p1")),  # the last one counts
        ("/usages?project_id=p2&project_id=p1", reader("me:p1")),
        ("/usages", reader("me:p1")),
        ("/resource_providers", reader("me:p1")),
        ("/resource_providers", {"x-auth-token": "admin", "openstack-system-scope": "all"}),
        ("/resource_providers", {"x-auth-token": "admin"}),
    ) == [200, 200, 403, 403, 403, 200, 403, 403, 403, 200]
