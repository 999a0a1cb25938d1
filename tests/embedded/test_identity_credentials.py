"""Application credentials, groups, domains and an extended catalog of the embedded identity service, over HTTP."""

from typing import Any

import httpx
import pytest

from tests.embedded.opened import Opened
from whimbrel.embedded.identity.not_supported import NAMES

V3 = "/identity/v3"
OWN = f"{V3}/users/ann/application_credentials"
MEMBER_IN_P2 = f"{V3}/projects/p2/groups/{{}}/roles/r-member"


async def made(services: Opened, who: str = "ann", **fields: Any) -> dict[str, Any]:
    answer = await services.ask(who, "POST", OWN, {"application_credential": {"name": "program", **fields}})
    assert answer.status_code == 201, answer.text
    credential: dict[str, Any] = answer.json()["application_credential"]
    return credential


async def log_in(services: Opened, proof: dict[str, Any], **scope: Any) -> httpx.Response:
    identity = {"methods": ["application_credential"], "application_credential": proof}
    return await services.ask("", "POST", f"{V3}/auth/tokens", {"auth": {"identity": identity, **scope}})


async def as_program(services: Opened, credential: dict[str, Any], method: str, path: str, body: Any) -> httpx.Response:
    answer = await log_in(services, {"id": credential["id"], "secret": credential["secret"]})
    headers = {"X-Auth-Token": answer.headers["x-subject-token"]}
    return await services.client.request(method, path, json=body, headers=headers)


async def test_a_program_logs_in_without_a_password(services: Opened) -> None:
    credential = await made(services)
    assert {role["name"] for role in credential["roles"]} == {"member", "reader"}
    by_name = {"name": "program", "user": {"name": "ann", "domain": {"id": "default"}}, "secret": credential["secret"]}
    for proof in ({"id": credential["id"], "secret": credential["secret"]}, by_name):
        answer = await log_in(services, proof)
        assert answer.status_code == 201
        token = answer.json()["token"]
        assert (token["project"]["id"], token["user"]["id"]) == ("p1", "ann")
        its = {"id": credential["id"], "name": "program", "restricted": True}
        assert (token["methods"], token["application_credential"]) == (["application_credential"], its)
    shown = (await services.ask("ann", "GET", f"{OWN}/{credential['id']}")).json()["application_credential"]
    assert "secret" not in shown
    assert "secret_hash" not in shown
    assert shown["id"] == credential["id"]


async def test_a_wrong_secret_or_an_expired_credential_is_refused(services: Opened) -> None:
    credential = await made(services, expires_at="2030-01-01T00:00:00")
    assert (await log_in(services, {"id": credential["id"], "secret": "wrong"})).status_code == 401
    assert (await log_in(services, {"id": "unknown", "secret": "wrong"})).status_code == 401
    assert credential["expires_at"] == "2030-01-01T00:00:00.000000"  # clients parse it without a time zone
    right = {"id": credential["id"], "secret": credential["secret"]}
    assert (await log_in(services, right, scope={"project": {"id": "p1"}})).status_code == 401
    services.clock.advance(1893456000 - services.clock.now() - 10)  # ten seconds before 2030
    answer = await log_in(services, right)
    assert answer.json()["token"]["expires_at"] == "2030-01-01T00:00:00.000000Z"
    services.clock.advance(10)
    assert (await log_in(services, right)).status_code == 401


async def test_a_restricted_program_makes_no_further_credentials(services: Opened) -> None:
    restricted, free = await made(services), await made(services, name="free", unrestricted=True)
    body = {"application_credential": {"name": "child"}}
    assert (await as_program(services, restricted, "POST", OWN, body)).status_code == 403
    assert (await as_program(services, restricted, "DELETE", f"{OWN}/{free['id']}", None)).status_code == 403
    assert (await as_program(services, free, "POST", OWN, body)).status_code == 201
    token = await log_in(services, {"id": free["id"], "secret": free["secret"]})
    again = {"methods": ["token"], "token": {"id": token.headers["x-subject-token"]}}
    exchanged = await services.ask("", "POST", f"{V3}/auth/tokens", {"auth": {"identity": again, "scope": "unscoped"}})
    assert exchanged.status_code == 403


@pytest.mark.parametrize(
    ("who", "fields", "status"),
    [
        ("bob", {}, 403),
        ("root", {}, 403),  # only for oneself, as in Keystone
        ("ann", {"roles": [{"name": "admin"}]}, 400),
        ("ann", {"access_rules": [{"path": "/"}]}, 400),
        ("ann", {"expires_at": "2001-01-01T00:00:00"}, 400),
        ("ann", {"expires_at": "soon"}, 400),
        ("ann", {"expires_at": "9999-12-31T23:59:59-12:00"}, 400),
        ("ann", {"name": ""}, 400),
    ],
)
async def test_refused_credentials(services: Opened, who: str, fields: dict[str, Any], status: int) -> None:
    answer = await services.ask(who, "POST", OWN, {"application_credential": {"name": "x", **fields}})
    assert answer.status_code == status


async def test_a_group_gives_its_members_a_role(services: Opened) -> None:
    group = (await services.ask("root", "POST", f"{V3}/groups", {"group": {"name": "team"}})).json()["group"]
    member = f"{V3}/groups/{group['id']}/users/ann"
    assert (await services.ask("root", "GET", member)).status_code == 404
    assert (await services.ask("root", "PUT", member)).status_code == 204
    assert (await services.ask("root", "HEAD", member)).status_code == 204
    assert (await services.ask("root", "PUT", MEMBER_IN_P2.format(group["id"]))).status_code == 204
    projects = (await services.ask("ann", "GET", f"{V3}/auth/projects")).json()["projects"]
    assert [project["id"] for project in projects] == ["p1", "p2"]
    groups = (await services.ask("ann", "GET", f"{V3}/users/ann/groups")).json()["groups"]
    assert [each["name"] for each in groups] == ["team"]
    query = f"{V3}/role_assignments?scope.project.id=p2&include_names"
    lines = (await services.ask("root", "GET", query)).json()["role_assignments"]
    assert {line["group"]["name"] for line in lines if "group" in line} == {"team"}
    effective = (await services.ask("root", "GET", query + "&effective&user.id=ann")).json()["role_assignments"]
    assert {line["role"]["name"] for line in effective} == {"member", "reader"}
    assert (await services.ask("root", "DELETE", f"{V3}/groups/{group['id']}")).status_code == 204
    assert len((await services.ask("ann", "GET", f"{V3}/auth/projects")).json()["projects"]) == 1


async def test_domains_separate_names(services: Opened) -> None:
    domain = (await services.ask("root", "POST", f"{V3}/domains", {"domain": {"name": "two"}})).json()["domain"]
    path = f"{V3}/domains/{domain['id']}"
    user = {"user": {"name": "ann", "domain_id": domain["id"], "password": "x"}}
    made = (await services.ask("root", "POST", f"{V3}/users", user)).json()["user"]
    assert made["id"] != "ann"
    assert (await services.ask("root", "DELETE", path)).status_code == 403
    disabled = await services.ask("root", "PATCH", path, {"domain": {"enabled": False}})
    assert disabled.json()["domain"]["enabled"] is False
    assert (await services.ask("root", "DELETE", path)).status_code == 204
    assert (await services.ask("root", "GET", path)).status_code == 404
    assert (await services.ask("root", "GET", f"{V3}/users/{made['id']}")).status_code == 404
    default = await services.ask("root", "PATCH", f"{V3}/domains/default", {"domain": {"enabled": False}})
    assert default.status_code == 403


async def test_added_services_are_in_the_catalog_of_tokens(services: Opened) -> None:
    service = await services.ask("root", "POST", f"{V3}/services", {"service": {"type": "object-store", "name": "s"}})
    service_id = service.json()["service"]["id"]
    fields = {"service_id": service_id, "interface": "public", "url": "http://s/v1", "region_id": "RegionOne"}
    endpoint = await services.ask("root", "POST", f"{V3}/endpoints", {"endpoint": fields})
    assert endpoint.status_code == 201
    catalog = (await services.ask("ann", "GET", f"{V3}/auth/catalog")).json()["catalog"]
    [added] = [each for each in catalog if each["type"] == "object-store"]
    assert [each["url"] for each in added["endpoints"]] == ["http://s/v1"]
    path = f"{V3}/endpoints/{endpoint.json()['endpoint']['id']}"
    await services.ask("root", "PATCH", path, {"endpoint": {"enabled": False}})
    catalog = (await services.ask("ann", "GET", f"{V3}/auth/catalog")).json()["catalog"]
    assert [each["endpoints"] for each in catalog if each["type"] == "object-store"] == [[]]
    assert (await services.ask("root", "DELETE", f"{V3}/services/{service_id}")).status_code == 204
    assert (await services.ask("root", "GET", path)).status_code == 404


async def test_the_former_name_of_a_region_creates_it(services: Opened) -> None:
    service = await services.ask("root", "POST", f"{V3}/services", {"service": {"type": "object-store", "name": "s"}})
    fields = {"service_id": service.json()["service"]["id"], "interface": "public", "url": "http://s/v1"}
    made = await services.ask("root", "POST", f"{V3}/endpoints", {"endpoint": {**fields, "region": "far"}})
    assert (made.status_code, made.json()["endpoint"]["region_id"]) == (201, "far")
    path = f"{V3}/endpoints/{made.json()['endpoint']['id']}"
    moved = await services.ask("root", "PATCH", path, {"endpoint": {"region": "farther"}})
    assert (moved.status_code, moved.json()["endpoint"]["region_id"]) == (200, "farther")
    regions = (await services.ask("root", "GET", f"{V3}/regions")).json()["regions"]
    assert {region["id"] for region in regions} == {"RegionOne", "far", "farther"}
    refused = await services.ask("root", "POST", f"{V3}/endpoints", {"endpoint": {**fields, "region_id": "none"}})
    assert refused.status_code == 400


async def test_a_region_is_created_at_its_url(services: Opened) -> None:
    path = f"{V3}/regions/far"
    made = await services.ask("root", "PUT", path, {"region": {"description": "text"}})
    assert (made.status_code, made.json()["region"]["id"]) == (201, "far")
    assert (await services.ask("root", "PUT", path, {"region": {}})).status_code == 409
    assert (await services.ask("root", "PUT", path, {"region": {"id": "near"}})).status_code == 400


async def test_a_region_goes_with_those_below_it(services: Opened) -> None:
    async def made(region: str, parent: str | None) -> None:
        body = {"region": {"id": region, "parent_region_id": parent}}
        assert (await services.ask("root", "POST", f"{V3}/regions", body)).status_code == 201

    async def left() -> set[str]:
        regions = (await services.ask("root", "GET", f"{V3}/regions")).json()["regions"]
        return {region["id"] for region in regions}

    for region, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", None)):
        await made(region, parent)
    service = (await services.ask("root", "POST", f"{V3}/services", {"service": {"type": "s"}})).json()["service"]
    fields = {"service_id": service["id"], "interface": "public", "url": "http://s/v1", "region_id": "c"}
    endpoint = (await services.ask("root", "POST", f"{V3}/endpoints", {"endpoint": fields})).json()["endpoint"]
    refused = await services.ask("root", "DELETE", f"{V3}/regions/a")
    assert (refused.status_code, endpoint["id"] in refused.text) == (403, True)
    assert await left() == {"RegionOne", "a", "b", "c", "d"}
    await services.ask("root", "DELETE", f"{V3}/endpoints/{endpoint['id']}")
    assert (await services.ask("root", "DELETE", f"{V3}/regions/a")).status_code == 204
    assert await left() == {"RegionOne", "d"}
    assert (await services.ask("root", "DELETE", f"{V3}/regions/a")).status_code == 404


@pytest.mark.parametrize("kind", ["services", "endpoints", "regions"])
async def test_the_clouds_own_catalog_is_read_only(services: Opened, kind: str) -> None:
    [own, *_] = (await services.ask("root", "GET", f"{V3}/{kind}")).json()[kind]
    assert (await services.ask("root", "DELETE", f"{V3}/{kind}/{own['id']}")).status_code == 403


async def test_ec2_keys_are_kept_for_their_user(services: Opened) -> None:
    path = f"{V3}/users/ann/credentials/OS-EC2"
    keys = (await services.ask("ann", "POST", path, {"tenant_id": "p1"})).json()["credential"]
    assert (await services.ask("ann", "GET", f"{path}/{keys['access']}")).json()["credential"] == keys
    [listed] = (await services.ask("ann", "GET", f"{V3}/credentials")).json()["credentials"]
    assert (listed["type"], listed["user_id"]) == ("ec2", "ann")
    assert (await services.ask("bob", "GET", f"{V3}/credentials/{listed['id']}")).status_code == 403
    assert (await services.ask("bob", "GET", f"{V3}/credentials?user_id=ann")).json()["credentials"] == []
    for changes in ({"blob": "no keys"}, {"blob": "{}"}):
        answer = await services.ask("ann", "PATCH", f"{V3}/credentials/{listed['id']}", {"credential": changes})
        assert answer.status_code == 400
    assert (await services.ask("ann", "GET", path)).json()["credentials"] == [keys]
    others = {"blob": '{"access": "another", "secret": "x"}'}
    answer = await services.ask("ann", "PATCH", f"{V3}/credentials/{listed['id']}", {"credential": others})
    assert (answer.status_code, answer.json()["credential"]["blob"]) == (200, others["blob"])
    assert answer.json()["credential"]["id"] == listed["id"]
    assert (await services.ask("ann", "DELETE", f"{path}/{keys['access']}")).status_code == 204
    note = {"user_id": "ann", "type": "note", "blob": "text"}
    kept = (await services.ask("ann", "POST", f"{V3}/credentials", {"credential": note})).json()["credential"]
    as_keys = {"credential": {"type": "ec2"}}
    assert (await services.ask("ann", "PATCH", f"{V3}/credentials/{kept['id']}", as_keys)).status_code == 400


async def test_what_is_not_supported_says_so(services: Opened) -> None:
    for method, path in (("POST", "trusts"), ("GET", "trusts/one"), ("DELETE", "trusts/one")):
        trust = await services.ask("ann", method, f"{V3}/OS-TRUST/{path}", {"trust": {}} if method == "POST" else None)
        assert (trust.status_code, "application credential" in trust.text) == (404, True)
    role = await services.ask("root", "PUT", f"{V3}/domains/default/users/ann/roles/r-member")
    assert (role.status_code, "not in domains" in role.text) == (403, True)


@pytest.mark.parametrize("path", NAMES)
async def test_what_is_not_supported_is_refused_by_name(services: Opened, path: str) -> None:
    url = f"{V3}/" + "/".join("x" if "{" in part else part for part in path.split("/"))
    for method, at in (("GET", url), ("POST", url), ("GET", f"{url}/y"), ("PUT", f"{url}/y"), ("DELETE", f"{url}/y")):
        answer = await services.ask("root", method, at, {} if method in ("POST", "PUT") else None)
        assert answer.status_code == 404
        assert answer.json()["error"]["message"].startswith(f"{NAMES[path]} are not supported")
        assert (await services.ask("", method, at)).status_code == 401


async def test_there_are_no_access_rules(services: Opened) -> None:
    path = f"{V3}/users/ann/access_rules"
    assert (await services.ask("ann", "GET", path)).json()["access_rules"] == []
    assert "x" in (await services.ask("ann", "GET", f"{path}/x")).json()["error"]["message"]
    assert (await services.ask("bob", "GET", path)).status_code == 403
    assert (await services.ask("ann", "DELETE", f"{path}/x")).status_code == 404
