"""Users, projects, roles and assignments of the embedded identity service, over HTTP."""

from typing import Any

import pytest

from tests.embedded.opened import Opened
from whimbrel.ports.services.identity import Role

V3 = "/identity/v3"
IN_P2 = f"{V3}/projects/p2/users/ann/roles"


async def log_in(services: Opened, name: str, password: str) -> int:
    user = {"name": name, "domain": {"id": "default"}, "password": password}
    body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    return (await services.ask("", "POST", f"{V3}/auth/tokens", body)).status_code


async def test_an_admin_makes_users_who_can_log_in(services: Opened) -> None:
    body = {"user": {"name": "dan", "password": "first", "email": "d@x", "default_project_id": "p1"}}
    answer = await services.ask("root", "POST", f"{V3}/users", body)
    dan = answer.json()["user"]
    assert answer.status_code == 201
    assert (dan["name"], dan["email"], dan["enabled"], dan["domain_id"]) == ("dan", "d@x", True, "default")
    assert not any("password_hash" in text or "first" in text for text in map(str, dan.items()))
    assert await log_in(services, "dan", "first") == 201
    changed = await services.ask("root", "PATCH", f"{V3}/users/{dan['id']}", {"user": {"password": "second"}})
    assert changed.status_code == 200
    assert await log_in(services, "dan", "first") == 401
    assert await log_in(services, "dan", "second") == 201
    await services.ask("root", "PATCH", f"{V3}/users/{dan['id']}", {"user": {"enabled": False}})
    assert await log_in(services, "dan", "second") == 401
    assert (await services.ask("root", "DELETE", f"{V3}/users/{dan['id']}")).status_code == 204
    assert (await services.ask("root", "GET", f"{V3}/users/{dan['id']}")).status_code == 404


async def test_attributes_of_a_user_without_a_meaning_are_kept(services: Opened) -> None:
    sent = {"name": "dan", "password": "p", "project_id": "p1", "tags": ["a", {"b": None}], "password_hash": "x"}
    answer = await services.ask("root", "POST", f"{V3}/users", {"user": {**sent, "links": 1, "extra": {"c": 1}}})
    dan = answer.json()["user"]
    assert (answer.status_code, dan["project_id"], dan["tags"]) == (201, "p1", ["a", {"b": None}])
    assert not {"password", "password_hash", "extra", "c"} & set(dan)
    path = f"{V3}/users/{dan['id']}"
    changes = {"user": {"phone": "1", "project_id": None, "default_project_id": "p2"}}
    changed = (await services.ask("root", "PATCH", path, changes)).json()["user"]
    assert changed == {**dan, "phone": "1", "project_id": None, "default_project_id": "p2"}
    await services.ask("root", "PATCH", path, {"user": {"description": "d"}})
    assert (await services.ask("root", "GET", path)).json()["user"] == {**changed, "description": "d"}
    for body in ({"user": 1}, {"user": {"name": ""}}, {}, []):
        assert (await services.ask("root", "PATCH", path, body)).status_code == 400


async def test_who_knows_his_password_changes_it(services: Opened) -> None:
    def body(old: str) -> dict[str, Any]:
        return {"user": {"original_password": old, "password": "new"}}

    assert (await services.ask("ann", "POST", f"{V3}/users/ann/password", body("wrong"))).status_code == 401
    answer = await services.ask("ann", "POST", f"{V3}/users/ann/password", body("secret of ann"))
    assert answer.status_code == 204
    assert await services.store.principal("token of ann") is None
    assert await log_in(services, "ann", "new") == 201


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/users", {"user": {"name": "bob"}}),
        ("/projects", {"project": {"name": "name of p2"}}),
        ("/roles", {"role": {"name": "Member"}}),
    ],
)
async def test_names_are_taken_once(services: Opened, path: str, body: dict[str, Any]) -> None:
    answer = await services.ask("root", "POST", V3 + path, body)
    assert answer.status_code == 409
    assert "Duplicate entry found with name" in answer.json()["error"]["message"]


async def test_a_name_that_is_taken_cannot_be_changed_to(services: Opened) -> None:
    user = await services.ask("root", "PATCH", f"{V3}/users/ann", {"user": {"name": "bob"}})
    assert user.status_code == 409
    project = await services.ask("root", "PATCH", f"{V3}/projects/p1", {"project": {"name": "name of p2"}})
    assert project.status_code == 409


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/users", {"user": {"name": ""}}, 400),
        ("/users", {"user": {"name": "   "}}, 400),
        ("/users", {"user": {"name": "x" * 256}}, 400),
        ("/users", {"user": {"name": "x", "domain_id": "elsewhere"}}, 404),
        ("/users", {"user": {"name": "x", "enabled": "perhaps"}}, 400),
        ("/users", {"name": "x"}, 400),
        ("/users", [1], 400),
        ("/projects", {"project": {"name": "x" * 65}}, 400),
        ("/projects", {"project": {"name": "a\0b"}}, 400),
    ],
)
async def test_bad_bodies_are_refused(services: Opened, path: str, body: Any, status: int) -> None:
    answer = await services.ask("root", "POST", V3 + path, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)


async def test_an_admin_makes_projects(services: Opened) -> None:
    body = {"project": {"name": "new", "description": "for trials"}}
    made = (await services.ask("root", "POST", f"{V3}/projects", body)).json()["project"]
    path = f"{V3}/projects/{made['id']}"
    assert (await services.ask("root", "GET", path)).json()["project"] == made
    found = (await services.ask("root", "GET", f"{V3}/projects?name=new")).json()["projects"]
    assert found == [made]
    changed = await services.ask("root", "PATCH", path, {"project": {"description": None, "name": "newer"}})
    assert (changed.json()["project"]["name"], changed.json()["project"]["description"]) == ("newer", "")
    assert (await services.ask("root", "DELETE", path)).status_code == 204
    assert (await services.ask("root", "DELETE", path)).status_code == 404


async def test_projects_have_no_projects_below(services: Opened) -> None:
    for fields, status in (
        ({"is_domain": False, "parent_id": "default"}, 201),  # as Terraform sends them
        ({"is_domain": True}, 400),
        ({"parent_id": "p1"}, 400),
    ):
        made = await services.ask("root", "POST", f"{V3}/projects", {"project": {"name": "new", **fields}})
        assert made.status_code == status, made.text


async def test_a_project_has_its_domain_above_and_nothing_below(services: Opened) -> None:
    path = f"{V3}/projects/p1"
    plain = (await services.ask("root", "GET", path)).json()["project"]
    for query, relatives in (
        ("parents_as_ids&subtree_as_ids", {"parents": {"default": None}, "subtree": None}),
        ("parents_as_list&subtree_as_list=1", {"parents": [], "subtree": []}),
        ("parents_as_list=0", {}),
    ):
        assert (await services.ask("ann", "GET", f"{path}?{query}")).json()["project"] == plain | relatives
    for name in ("parents", "subtree"):
        assert (await services.ask("root", "GET", f"{path}?{name}_as_ids&{name}_as_list")).status_code == 400


async def test_attributes_of_a_project_without_a_meaning_are_kept(services: Opened) -> None:
    sent = {
        "name": "new",
        "parent_id": "default",
        "email": "x",
        "a": {"b": None},
        "extra": {"c": 1},
        "is_domain": False,
    }
    answer = await services.ask("root", "POST", f"{V3}/projects", {"project": sent})
    made = answer.json()["project"]
    assert (answer.status_code, made["email"], made["a"]) == (201, "x", {"b": None})
    assert not {"extra", "c"} & set(made)
    path = f"{V3}/projects/{made['id']}"
    changed = (await services.ask("root", "PATCH", path, {"project": {"a": 1, "description": "d"}})).json()["project"]
    assert changed == {**made, "a": 1, "description": "d"}
    assert (await services.ask("root", "GET", path)).json()["project"] == changed


async def test_projects_have_tags(services: Opened) -> None:
    async def tagged(query: str) -> list[str]:
        answer = await services.ask("root", "GET", f"{V3}/projects?{query}")
        return [project["id"] for project in answer.json()["projects"]]

    body = {"project": {"name": "new", "tags": ["b", "a", "b"]}}
    made = (await services.ask("root", "POST", f"{V3}/projects", body)).json()["project"]
    assert made["tags"] == ["a", "b"]
    path = f"{V3}/projects/p1/tags"
    assert (await services.ask("root", "PUT", f"{path}/a")).status_code == 201
    assert (await services.ask("ann", "GET", f"{path}/a")).status_code == 204
    assert (await services.ask("ann", "PUT", f"{path}/c")).status_code == 403
    for query, found in (
        ("tags=a,b", [made["id"]]),
        ("tags-any=a,b", ["p1", made["id"]]),
        ("tags=a&not-tags=a,b", ["p1"]),
        ("not-tags-any=a", ["p0", "p2"]),
    ):
        assert sorted(await tagged(query)) == sorted(found), query
    assert (await services.ask("root", "PUT", path, {"tags": ["d", "c"]})).json() == {"tags": ["c", "d"]}
    assert (await services.ask("root", "DELETE", f"{path}/a")).status_code == 404
    assert (await services.ask("root", "DELETE", f"{path}/c")).status_code == 204
    assert (await services.ask("ann", "GET", path)).json() == {"tags": ["d"]}
    changed = await services.ask("root", "PATCH", f"{V3}/projects/p1", {"project": {"tags": ["e"]}})
    assert changed.json()["project"]["tags"] == ["e"]
    assert (await services.ask("root", "DELETE", path)).status_code == 204
    assert (await services.ask("ann", "GET", path)).json() == {"tags": []}
    for bad in ({"tags": ["x,y"]}, {"tags": [""]}, {"tags": [str(n) for n in range(81)]}):
        assert (await services.ask("root", "PUT", path, bad)).status_code == 400


async def test_lists_can_be_narrowed(services: Opened) -> None:
    await services.ask("root", "PATCH", f"{V3}/users/bob", {"user": {"enabled": False}})

    async def names(query: str, word: str) -> list[str]:
        answer = (await services.ask("root", "GET", f"{V3}/{word}?{query}")).json()
        return [each["name"] for each in answer[word]]

    assert await names("", "users") == ["ann", "bob", "eve", "root"]
    assert await names("name=ann", "users") == ["ann"]
    assert await names("enabled=False", "users") == ["bob"]
    assert await names("domain_id=elsewhere", "users") == []
    assert await names("name=ADMIN", "roles") == ["admin"]
    assert await names("name=Default", "domains") == ["Default"]
    assert await names("type=image", "services") == ["glance"]


async def test_roles_are_given_and_taken(services: Opened) -> None:
    assert (await services.ask("root", "HEAD", f"{IN_P2}/r-member")).status_code == 404
    for _ in range(2):
        assert (await services.ask("root", "PUT", f"{IN_P2}/r-member")).status_code == 204
    assert (await services.ask("root", "HEAD", f"{IN_P2}/r-member")).status_code == 204
    roles = (await services.ask("root", "GET", IN_P2)).json()["roles"]
    assert [role["name"] for role in roles] == ["member"]
    mine = (await services.ask("ann", "GET", f"{V3}/users/ann/projects")).json()["projects"]
    assert [project["id"] for project in mine] == ["p1", "p2"]
    assert (await services.ask("root", "DELETE", f"{IN_P2}/r-member")).status_code == 204
    assert (await services.ask("root", "DELETE", f"{IN_P2}/r-member")).status_code == 404
    assert (await services.ask("root", "PUT", f"{IN_P2}/nothing")).status_code == 404
    nobody = f"{V3}/projects/p2/users/nobody/roles/r-member"
    assert (await services.ask("root", "PUT", nobody)).status_code == 404


async def test_assignments_are_listed_with_names_and_with_what_they_imply(services: Opened) -> None:
    async def listed(query: str) -> list[Any]:
        answer = await services.ask("root", "GET", f"{V3}/role_assignments?{query}")
        lines: list[Any] = answer.json()["role_assignments"]
        return lines

    assert len(await listed("")) == 4
    (ann,) = await listed("user.id=ann&include_names=True")
    assert (ann["role"]["name"], ann["user"]["name"]) == ("member", "ann")
    assert ann["scope"]["project"]["domain"] == {"id": "default", "name": "Default"}
    effective = await listed("scope.project.id=p0&effective&include_names")
    assert {line["role"]["name"] for line in effective} == {"admin", "manager", "member", "reader"}
    assert [line["user"]["id"] for line in await listed("effective&role.id=r-member")] == ["ann", "bob", "root"]


async def test_roles_of_the_cloud_stay_as_they_are(services: Opened) -> None:
    assert (await services.ask("root", "DELETE", f"{V3}/roles/r-reader")).status_code == 403
    changed = await services.ask("root", "PATCH", f"{V3}/roles/r-reader", {"role": {"name": "other"}})
    assert changed.status_code == 403


async def test_domains_have_no_roles(services: Opened) -> None:
    of_domain = {"role": {"name": "extra", "domain_id": "default"}}
    assert (await services.ask("root", "POST", f"{V3}/roles", of_domain)).status_code == 400
    assert (await services.ask("root", "GET", f"{V3}/roles?domain_id=default")).json()["roles"] == []


async def test_a_role_is_shown_as_it_was_spelt_and_found_in_any_case(services: Opened) -> None:
    made = (await services.ask("root", "POST", f"{V3}/roles", {"role": {"name": "Auditor-One"}})).json()["role"]
    assert made["name"] == "Auditor-One"
    path = f"{V3}/roles/{made['id']}"
    for name in ("Auditor-One", "auditor-one"):
        [found] = (await services.ask("root", "GET", f"{V3}/roles?name={name}")).json()["roles"]
        assert found == made
    taken = await services.ask("root", "POST", f"{V3}/roles", {"role": {"name": "AUDITOR-one"}})
    assert taken.status_code == 409
    assert (await services.ask("root", "PUT", f"{IN_P2}/{made['id']}")).status_code == 204
    named = (await services.ask("root", "GET", f"{V3}/role_assignments?role.id={made['id']}&include_names")).json()
    assert [each["role"]["name"] for each in named["role_assignments"]] == ["Auditor-One"]
    changed = await services.ask("root", "PATCH", path, {"role": {"name": "AuditorTwo"}})
    assert changed.json()["role"]["name"] == "AuditorTwo"
    await services.store.change(Role, made["id"], {"name": "three"})  # as a process of an older release does
    assert (await services.ask("root", "GET", path)).json()["role"]["name"] == "three"


async def test_an_added_role_is_changed_and_deleted_with_its_assignments(services: Opened) -> None:
    extra = (await services.ask("root", "POST", f"{V3}/roles", {"role": {"name": "Extra"}})).json()["role"]
    assert extra["name"] == "Extra"
    path = f"{V3}/roles/{extra['id']}"
    await services.ask("root", "PUT", f"{IN_P2}/{extra['id']}")
    changes = {"role": {"name": "Other", "description": "text"}}
    changed = (await services.ask("root", "PATCH", path, changes)).json()["role"]
    assert changed == {**extra, "name": "Other", "description": "text"}
    assert (await services.ask("root", "GET", path)).json()["role"] == changed
    taken = await services.ask("root", "PATCH", path, {"role": {"name": "member"}})
    assert taken.status_code == 409
    assert (await services.ask("root", "DELETE", path)).status_code == 204
    assert (await services.ask("root", "GET", f"{V3}/role_assignments?role.id={extra['id']}")).json()[
        "role_assignments"
    ] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/users"),
        ("POST", "/users"),
        ("GET", "/users/bob"),
        ("PATCH", "/users/ann"),
        ("DELETE", "/users/ann"),
        ("GET", "/projects"),
        ("POST", "/projects"),
        ("GET", "/projects/p2"),
        ("DELETE", "/projects/p1"),
        ("GET", "/roles"),
        ("GET", "/role_assignments"),
        ("GET", "/services"),
        ("GET", "/endpoints"),
        ("PUT", "/projects/p1/users/ann/roles/r-admin"),
        ("GET", "/users/bob/projects"),
        ("GET", "/domains"),
    ],
)
async def test_a_member_sees_himself_and_changes_nothing(services: Opened, method: str, path: str) -> None:
    assert (await services.ask("ann", method, V3 + path, {})).status_code == 403
    assert (await services.ask("", method, V3 + path, {})).status_code == 401


@pytest.mark.parametrize("path", ["/users/ann", "/projects/p1", "/users/ann/projects", "/domains/default"])
async def test_a_member_sees_what_is_his(services: Opened, path: str) -> None:
    assert (await services.ask("ann", "GET", V3 + path)).status_code == 200


@pytest.mark.parametrize("kind", ["services", "endpoints", "regions", "roles", "domains", "users", "projects"])
async def test_each_thing_of_a_list_can_be_shown(services: Opened, kind: str) -> None:
    first = (await services.ask("root", "GET", f"{V3}/{kind}")).json()[kind][0]
    shown = await services.ask("root", "GET", f"{V3}/{kind}/{first['id']}")
    assert shown.json()[kind.removesuffix("s")] == first
    missing = await services.ask("root", "GET", f"{V3}/{kind}/nothing")
    assert (missing.status_code, missing.json()["error"]["title"]) == (404, "Not Found")


@pytest.mark.parametrize("path", ["/users?name=%00", "/users/%00", "/users?name=%ff", "/nothing", "/users/ann/x"])
async def test_odd_addresses_end_in_an_error_of_the_right_shape(services: Opened, path: str) -> None:
    answer = await services.ask("root", "GET", V3 + path)
    assert answer.status_code in (200, 400, 404)
    assert "error" in answer.json() or answer.json()["users"] == []


async def test_a_method_that_is_not_there_is_405(services: Opened) -> None:
    answer = await services.ask("root", "PUT", f"{V3}/users", {})
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, 405)
