"""The Placement API as its clients see it: shapes, codes and versions."""

from typing import Any

import pytest

from tests.api.placement_client import Client

HOST, CHILD = "11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"
SERVER, MOVE = "22222222-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
ZONE, OTHER_ZONE = "33333333-0000-4000-8000-000000000001", "33333333-0000-4000-8000-000000000002"
PROVIDER = f"/resource_providers/{HOST}"
ROUTES_OF_ALL_KINDS = ["/resource_providers", "/traits", "/resource_classes", "/allocations/x", PROVIDER]
TWO_CPUS = {HOST: {"resources": {"VCPU": 2}}}


async def make_host(client: Client, uuid: str = HOST, name: str = "host", **more: Any) -> None:
    """Make a provider with 8 VCPU and 1024 MEMORY_MB; its generation is then 1."""
    await client.done("POST", "/resource_providers", {"uuid": uuid, "name": name, **more})
    inventories = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 1024}}
    body = {"resource_provider_generation": 0, "inventories": inventories}
    await client.done("PUT", f"/resource_providers/{uuid}/inventories", body)


def claim(allocations: Any, generation: int | None = None, **more: Any) -> dict[str, Any]:
    who = {"project_id": "own", "user_id": "somebody", "consumer_type": "INSTANCE"}
    return {"allocations": allocations, "consumer_generation": generation, **who, **more}


# The door


async def test_root_needs_no_token(client: Client) -> None:
    (version,) = (await client.get("/", token=None))["versions"]
    assert (version["id"], version["min_version"], version["max_version"]) == ("v1.0", "1.0", "1.39")
    await client.refused(405, "POST", "/")


async def test_everything_else_needs_one(client: Client) -> None:
    for token in (None, "expired"):
        answer = await client.ask("GET", "/resource_providers", token=token)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Keystone uri="http://cloud/identity"'
        assert answer.json()["errors"][0]["title"] == "Unauthorized"


async def test_administrators_and_services_only(client: Client) -> None:
    for path in ROUTES_OF_ALL_KINDS:
        await client.refused(403, "GET", path, token="member+reader")
    await client.get("/traits", token="service")


async def test_a_reader_sees_what_his_own_project_uses(client: Client) -> None:
    assert await client.get("/usages?project_id=own", token="reader") == {"usages": {}}
    await client.refused(403, "GET", "/usages?project_id=other", token="reader")


async def test_versions(client: Client) -> None:
    for header, version in (
        (None, "1.0"),
        ("placement 1.20", "1.20"),
        ("placement latest", "1.39"),
        ("compute 2.1", "1.0"),
    ):
        answer = await client.done("GET", "/resource_providers", at=header)
        assert answer.headers["openstack-api-version"] == f"placement {version}"
        assert answer.headers["vary"] == "openstack-api-version"
    error = await client.refused(406, "GET", "/resource_providers", at=40)
    assert (error["min_version"], error["max_version"]) == ("1.0", "1.39")
    await client.refused(400, "GET", "/resource_providers", at="placement nonsense")


async def test_codes_and_dates_have_their_versions(client: Client) -> None:
    assert "code" not in await client.refused(404, "GET", PROVIDER, at=22)
    assert (await client.refused(404, "GET", PROVIDER, at=23))["code"] == "placement.undefined_code"
    assert "last-modified" not in (await client.done("GET", "/traits", at=14)).headers
    headers = (await client.done("GET", "/traits", at=15)).headers
    assert headers["last-modified"] == "Fri, 15 Jan 2027 08:00:00 GMT"
    assert headers["cache-control"] == "no-cache"
    await client.done("POST", "/resource_providers", {"name": "host", "uuid": HOST})
    headers = (await client.done("GET", f"{PROVIDER}/inventories")).headers  # nothing has no date
    assert headers["cache-control"] == "no-cache"
    assert "last-modified" not in headers


async def test_the_version_document_is_there_with_and_without_a_slash(client: Client) -> None:
    for path in ("", "/"):
        answer = await client.ask("GET", path, token=None)
        assert answer.status_code == 200, answer.text
        assert answer.json()["versions"][0]["max_version"] == "1.39"


async def test_unknown_urls_and_methods(client: Client) -> None:
    for path in ("/nonsense", "/resource_providers/", f"{PROVIDER}/nonsense", f"{PROVIDER}/traits/x"):
        await client.refused(404, "GET", path)
    answer = await client.ask("PATCH", "/resource_providers")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    await client.refused(404, "GET", "/traits", at=5)
    await client.refused(405, "DELETE", f"{PROVIDER}/inventories", at=4)


ACCEPTED = (
    ("text/html", 406),
    ("text/html, */*;q=0.1", 200),
    ("text/html, application/*", 200),
    ("application/json;q=0", 406),
    ("*/*, application/json;q=0.0", 406),
    ("application/json;version=1", 406),
    ("APPLICATION/JSON; q=0.3", 200),
    ("nonsense", 200),
    ("", 200),
)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/html", "text/html"),
        ("text/html, application/json;q=0.5", "text/html"),
        ("text/*", "text/html"),
        ("image/png", "text/plain"),
        ("application/json, text/html;q=0.9", "application/json"),
        ("*/*", "application/json"),
        ("nonsense", "application/json"),
    ],
)
async def test_who_takes_no_json_is_refused_in_words(client: Client, accept: str, kind: str) -> None:
    answer = await client.ask("DELETE", "/resource_providers/<b>", headers={"accept": accept})
    assert answer.status_code == 404
    assert answer.headers["content-type"].split(";")[0] == kind
    assert ("&lt;b&gt;" if kind == "text/html" else "<b>") in answer.text


async def test_types_of_content(client: Client) -> None:
    for accept, status in ACCEPTED:
        answer = await client.ask("GET", "/traits", headers={"accept": accept})
        assert answer.status_code == status, accept
    await client.done("GET", "/traits/HW_CPU_X86_AVX2", headers={"accept": "text/html"})  # there is no body
    await client.refused(415, "POST", "/resource_providers", headers={"content-type": "text/plain"}, content=b"{}")
    for method, path in (("POST", "/resource_providers"), ("GET", "/traits"), ("DELETE", "/nonsense")):
        assert "content-type" in (await client.refused(400, method, path, content=b"{}"))["detail"]
    await client.refused(415, "POST", "/resource_providers", headers={"content-type": "Application/JSON"})
    await client.refused(415, "POST", "/resource_providers")
    error = await client.refused(
        400, "POST", "/resource_providers", headers={"content-type": "application/json"}, content=b'{"name": '
    )
    assert error["detail"].startswith("Malformed JSON")
    too_much = b'"' + b"x" * 5_000_000 + b'"'
    await client.refused(
        413, "POST", "/resource_providers", headers={"content-type": "application/json"}, content=too_much
    )


# Providers


async def test_create_show_rename_and_delete(client: Client) -> None:
    answer = await client.done("POST", "/resource_providers", {"name": "host"})
    provider = answer.json()
    assert answer.status_code == 200
    assert answer.headers["location"] == f"http://cloud/placement/resource_providers/{provider['uuid']}"
    assert provider["root_provider_uuid"] == provider["uuid"]
    path = f"/resource_providers/{provider['uuid']}"
    assert [link["rel"] for link in provider["links"]] == [
        *("self", "inventories", "usages", "aggregates", "traits", "allocations")
    ]
    assert provider["links"][1]["href"] == f"/placement{path}/inventories"
    assert await client.get(path) == provider
    old = await client.get(path, at=0)
    assert old.keys() == {"uuid", "name", "generation", "links"}
    assert [link["rel"] for link in old["links"]] == ["self", "inventories", "usages"]
    assert (await client.done("PUT", path, {"name": "other"})).json()["name"] == "other"
    await client.done("DELETE", path)
    await client.refused(404, "GET", path)
    await client.refused(404, "DELETE", path)


async def test_create_answers_201_without_a_body_below_1_20(client: Client) -> None:
    answer = await client.done("POST", "/resource_providers", {"name": "host", "uuid": HOST.replace("-", "")}, at=19)
    assert (answer.status_code, answer.content) == (201, b"")
    assert answer.headers["location"].endswith(HOST)


async def test_names_are_unique(client: Client) -> None:
    await make_host(client)
    error = await client.refused(409, "POST", "/resource_providers", {"name": "host"})
    assert error["code"] == "placement.duplicate_name"
    await client.done("POST", "/resource_providers", {"name": "other", "uuid": CHILD})
    await client.refused(409, "PUT", PROVIDER, {"name": "other"})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": 1},
        {"name": "x" * 201},
        {"name": "x\x00"},
        {"name": "x", "uuid": "nonsense"},
        {"name": "x", "unknown": 1},
        {"name": "x", "parent_provider_uuid": CHILD},
        {"name": "x", "uuid": HOST, "parent_provider_uuid": HOST},
        [],
        "x",
    ],
    ids=str,
)
async def test_bad_providers(client: Client, body: Any) -> None:
    await client.refused(400, "POST", "/resource_providers", body)
    assert await client.get("/resource_providers") == {"resource_providers": []}


async def test_trees(client: Client) -> None:
    await make_host(client)
    await make_host(client, CHILD, "child", parent_provider_uuid=HOST)
    child = f"/resource_providers/{CHILD}"
    assert (await client.get(child))["root_provider_uuid"] == HOST
    error = await client.refused(409, "DELETE", PROVIDER)
    assert error["code"] == "placement.resource_provider.cannot_delete_parent"
    await client.refused(400, "PUT", PROVIDER, {"name": "host", "parent_provider_uuid": CHILD})
    await client.refused(400, "PUT", child, {"name": "child", "parent_provider_uuid": None}, at=36)
    found = await client.get(f"/resource_providers?in_tree={CHILD}")
    assert {each["name"] for each in found["resource_providers"]} == {"host", "child"}
    loose = (await client.done("PUT", child, {"name": "child", "parent_provider_uuid": None})).json()
    assert (loose["parent_provider_uuid"], loose["root_provider_uuid"]) == (None, CHILD)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"host", "other"}),
        ("?name=host", {"host"}),
        (f"?uuid={HOST}", {"host"}),
        (f"?uuid={ZONE}", set()),
        (f"?in_tree={ZONE}", set()),
        ("?resources=VCPU:8,MEMORY_MB:1024", {"host"}),
        ("?resources=VCPU:9", set()),
        ("?required=HW_CPU_X86_AVX2", {"host"}),
        ("?required=!HW_CPU_X86_AVX2", {"other"}),
        ("?required=in:HW_CPU_X86_AVX2,CUSTOM_GOLD", {"host", "other"}),
        ("?required=in:HW_CPU_X86_AVX2,CUSTOM_GOLD&required=!CUSTOM_GOLD", {"host"}),
        (f"?member_of={ZONE}", {"host"}),
        (f"?member_of=in:{ZONE},{OTHER_ZONE}", {"host", "other"}),
        (f"?member_of=!{ZONE}", {"other"}),
        (f"?member_of=!in:{ZONE},{OTHER_ZONE}", set()),
        (f"?member_of={ZONE}&member_of={OTHER_ZONE}", set()),
    ],
)
async def test_filters(client: Client, query: str, found: set[str]) -> None:
    await make_host(client)
    await client.done("POST", "/resource_providers", {"uuid": CHILD, "name": "other"})
    await client.done("PUT", "/traits/CUSTOM_GOLD")
    for uuid, trait, zone in ((HOST, "HW_CPU_X86_AVX2", ZONE), (CHILD, "CUSTOM_GOLD", OTHER_ZONE)):
        await client.store.set_traits(uuid, None, [trait])  # type: ignore[arg-type]
        await client.store.put_aggregates(uuid, None, [zone])  # type: ignore[arg-type]
    providers = (await client.get(f"/resource_providers{query}"))["resource_providers"]
    assert {provider["name"] for provider in providers} == found


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ("?unknown=1", 39),
        ("?uuid=nonsense", 39),
        ("?in_tree=nonsense", 39),
        (f"?in_tree={HOST}", 13),
        ("?resources=", 39),
        ("?resources=VCPU", 39),
        ("?resources=VCPU:0", 39),
        ("?resources=VCPU:-1", 39),
        ("?resources=VCPU:1.5", 39),
        ("?resources=NONSENSE:1", 39),
        ("?resources=VCPU:1", 3),
        ("?required=NONSENSE", 39),
        ("?required=", 39),
        ("?required=!HW_CPU_X86_AVX2", 21),
        ("?required=in:HW_CPU_X86_AVX2,HW_CPU_X86_AVX", 38),
        ("?required=CUSTOM_GOLD&required=", 38),
        (f"?uuid={HOST.replace('-', '')}", 39),
        (f"?in_tree=%20{HOST}", 39),
        ("?member_of=nonsense", 39),
        (f"?member_of={ZONE},{OTHER_ZONE}", 39),
        (f"?member_of=!{ZONE}", 31),
        (f"?member_of={ZONE}&member_of={OTHER_ZONE}", 23),
        ("?name=%ff%fe", 39),
        ("?name=%00", 39),
    ],
)
async def test_bad_filters(client: Client, query: str, at: int) -> None:
    await client.refused(400, "GET", f"/resource_providers{query}", at=at)


async def test_bad_queries_have_codes(client: Client) -> None:
    async def code(query: str, at: int = 39) -> str:
        return str((await client.refused(400, "GET", query, at=at))["code"])

    twice = "/allocation_candidates?resources=VCPU:1&root_required=HW_NUMA_ROOT&root_required=HW_NUMA_ROOT"
    assert await code(twice) == "placement.query.duplicate_key"
    assert await code(f"/resource_providers?member_of={ZONE}&member_of={ZONE}", at=23) == "placement.undefined_code"
    assert await code("/resource_providers?resources=x") == "placement.undefined_code"
    assert await code("/usages") == "placement.undefined_code"


# Inventories


async def test_inventories(client: Client) -> None:
    await make_host(client)
    found = await client.get(f"{PROVIDER}/inventories")
    assert found["resource_provider_generation"] == 1
    assert found["inventories"]["VCPU"] == {
        "total": 8,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": 2**31 - 1,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }
    new = {"resource_class": "DISK_GB", "total": 10, "reserved": 2}
    answer = await client.done("POST", f"{PROVIDER}/inventories", new)
    assert answer.status_code == 201
    assert answer.headers["location"].endswith(f"{PROVIDER}/inventories/DISK_GB")
    await client.refused(409, "POST", f"{PROVIDER}/inventories", new)
    body = {"total": 20, "resource_provider_generation": 2}
    changed = (await client.done("PUT", f"{PROVIDER}/inventories/DISK_GB", body)).json()
    assert (changed["total"], changed["reserved"], changed["resource_provider_generation"]) == (20, 0, 3)
    error = await client.refused(409, "PUT", f"{PROVIDER}/inventories/DISK_GB", body)
    assert error["code"] == "placement.concurrent_update"
    assert await client.get(f"{PROVIDER}/inventories/DISK_GB") == changed
    await client.done("DELETE", f"{PROVIDER}/inventories/DISK_GB")
    for method in ("GET", "DELETE"):
        await client.refused(404, method, f"{PROVIDER}/inventories/DISK_GB")
    await client.refused(400, "PUT", f"{PROVIDER}/inventories/DISK_GB", {**body, "resource_provider_generation": 4})
    assert (await client.get(f"{PROVIDER}/usages"))["usages"] == {"VCPU": 0, "MEMORY_MB": 0}
    await client.done("DELETE", f"{PROVIDER}/inventories")
    assert (await client.get(f"{PROVIDER}/inventories"))["inventories"] == {}


async def test_inventories_in_use_stay(client: Client) -> None:
    await make_host(client)
    await client.done("PUT", f"/allocations/{SERVER}", claim(TWO_CPUS))
    body = {"resource_provider_generation": 2, "inventories": {"MEMORY_MB": {"total": 5}}}
    for method, path, sent, code in (
        ("PUT", "inventories", body, "inventory.inuse"),
        ("DELETE", "inventories", None, "inventory.inuse"),
        ("DELETE", "inventories/VCPU", None, "concurrent_update"),
    ):
        error = await client.refused(409, method, f"{PROVIDER}/{path}", sent)
        assert error["code"] == f"placement.{code}"
    assert (await client.refused(409, "DELETE", PROVIDER))["code"] == "placement.resource_provider.inuse"
    assert (await client.get(f"{PROVIDER}/usages"))["usages"]["VCPU"] == 2


@pytest.mark.parametrize(
    "amounts",
    [
        {},
        {"total": 0},
        {"total": 2**31},
        {"total": 1.5},
        {"total": "1"},
        {"total": 8, "reserved": 9},
        {"total": 8, "reserved": -1},
        {"total": 8, "min_unit": 0},
        {"total": 8, "step_size": 0},
        {"total": 8, "allocation_ratio": -1},
        {"total": 8, "allocation_ratio": 1e39},
        {"total": 8, "unknown": 1},
    ],
    ids=str,
)
async def test_bad_inventories(client: Client, amounts: dict[str, Any]) -> None:
    await make_host(client)
    body = {"resource_provider_generation": 1, "inventories": {"VCPU": amounts}}
    await client.refused(400, "PUT", f"{PROVIDER}/inventories", body)
    assert (await client.get(PROVIDER))["generation"] == 1


async def test_all_of_an_inventory_can_be_reserved_from_1_26_on(client: Client) -> None:
    await make_host(client)
    body = {"resource_provider_generation": 1, "inventories": {"VCPU": {"total": 8, "reserved": 8}}}
    await client.refused(400, "PUT", f"{PROVIDER}/inventories", body, at=25)
    await client.done("PUT", f"{PROVIDER}/inventories", body, at=26)


async def test_unknown_classes(client: Client) -> None:
    await make_host(client)
    await client.refused(400, "POST", f"{PROVIDER}/inventories", {"resource_class": "CUSTOM_X", "total": 1})
    await client.refused(400, "POST", f"{PROVIDER}/inventories", {"resource_class": "vcpu", "total": 1})


# Aggregates, traits, resource classes


async def test_aggregates(client: Client) -> None:
    await make_host(client)
    assert (await client.done("PUT", f"{PROVIDER}/aggregates", [ZONE], at=1)).json() == {"aggregates": [ZONE]}
    body = {"aggregates": [ZONE, OTHER_ZONE], "resource_provider_generation": 1}
    found = (await client.done("PUT", f"{PROVIDER}/aggregates", body)).json()
    assert found == {"aggregates": [ZONE, OTHER_ZONE], "resource_provider_generation": 2}
    assert await client.get(f"{PROVIDER}/aggregates") == found
    assert (await client.refused(409, "PUT", f"{PROVIDER}/aggregates", body))["code"] == "placement.concurrent_update"
    await client.refused(400, "PUT", f"{PROVIDER}/aggregates", [ZONE])
    await client.refused(404, "GET", f"/resource_providers/{CHILD}/aggregates")


async def test_traits(client: Client) -> None:
    await make_host(client)
    created = await client.done("PUT", "/traits/CUSTOM_GOLD")
    assert (created.status_code, created.headers["location"]) == (201, "http://cloud/placement/traits/CUSTOM_GOLD")
    assert (await client.done("PUT", "/traits/CUSTOM_GOLD")).status_code == 204
    for bad in ("GOLD", "CUSTOM_gold", "CUSTOM_" + "X" * 255):
        await client.refused(400, "PUT", f"/traits/{bad}")
    assert (await client.done("GET", "/traits/HW_CPU_X86_AVX2")).status_code == 204
    await client.refused(404, "GET", "/traits/CUSTOM_SILVER")
    body = {"traits": ["CUSTOM_GOLD", "HW_CPU_X86_AVX2"], "resource_provider_generation": 1}
    found = (await client.done("PUT", f"{PROVIDER}/traits", body)).json()
    assert found == {**body, "resource_provider_generation": 2}
    assert await client.get(f"{PROVIDER}/traits") == found
    await client.refused(409, "PUT", f"{PROVIDER}/traits", body)
    unknown = {"traits": ["CUSTOM_SILVER"], "resource_provider_generation": 2}
    assert "CUSTOM_SILVER" in (await client.refused(400, "PUT", f"{PROVIDER}/traits", unknown))["detail"]
    assert (await client.get("/traits?associated=true"))["traits"] == ["CUSTOM_GOLD", "HW_CPU_X86_AVX2"]
    assert (await client.get("/traits?name=startswith:CUSTOM"))["traits"] == ["CUSTOM_GOLD"]
    assert (await client.get("/traits?name=in:CUSTOM_GOLD,NONSENSE"))["traits"] == ["CUSTOM_GOLD"]
    assert "CUSTOM_GOLD" not in (await client.get("/traits?associated=false"))["traits"]
    assert len((await client.get("/traits?name=like:CUSTOM"))["traits"]) > 100
    for query in ("?associated=maybe", "?name=CUSTOM", "?unknown=1"):
        await client.refused(400, "GET", f"/traits{query}")
    await client.refused(409, "DELETE", "/traits/CUSTOM_GOLD")
    await client.refused(400, "DELETE", "/traits/HW_CPU_X86_AVX2")
    await client.done("DELETE", f"{PROVIDER}/traits")
    await client.done("DELETE", "/traits/CUSTOM_GOLD")
    await client.refused(404, "DELETE", "/traits/CUSTOM_GOLD")


async def test_resource_classes(client: Client) -> None:
    names = [each["name"] for each in (await client.get("/resource_classes"))["resource_classes"]]
    assert {"VCPU", "MEMORY_MB", "DISK_GB"} <= set(names)
    answer = await client.done("POST", "/resource_classes", {"name": "CUSTOM_A"})
    assert answer.headers["location"] == "http://cloud/placement/resource_classes/CUSTOM_A"
    await client.refused(409, "POST", "/resource_classes", {"name": "CUSTOM_A"})
    await client.refused(400, "POST", "/resource_classes", {"name": "A"})
    assert (await client.done("PUT", "/resource_classes/CUSTOM_A")).status_code == 204
    assert (await client.done("PUT", "/resource_classes/CUSTOM_B")).status_code == 201
    await client.refused(400, "PUT", "/resource_classes/VCPU")
    renamed = (await client.done("PUT", "/resource_classes/CUSTOM_B", {"name": "CUSTOM_C"}, at=6)).json()
    assert renamed["name"] == "CUSTOM_C"
    await client.refused(409, "PUT", "/resource_classes/CUSTOM_C", {"name": "CUSTOM_A"}, at=6)
    await client.refused(400, "PUT", "/resource_classes/VCPU", {"name": "CUSTOM_D"}, at=6)
    await client.refused(404, "GET", "/resource_classes/CUSTOM_B")
    assert (await client.get("/resource_classes/VCPU"))["links"][0]["href"] == "/placement/resource_classes/VCPU"
    await make_host(client)
    await client.done("POST", f"{PROVIDER}/inventories", {"resource_class": "CUSTOM_C", "total": 1})
    await client.refused(409, "DELETE", "/resource_classes/CUSTOM_C")
    await client.refused(400, "DELETE", "/resource_classes/VCPU")
    await client.done("DELETE", "/resource_classes/CUSTOM_A")
    await client.refused(404, "DELETE", "/resource_classes/CUSTOM_A")


# Allocations


async def test_allocations_of_a_consumer(client: Client) -> None:
    await make_host(client)
    path = f"/allocations/{SERVER}"
    assert await client.get(path) == {"allocations": {}}
    await client.done("PUT", path, claim(TWO_CPUS))
    assert await client.get(path) == {
        "allocations": {HOST: {"resources": {"VCPU": 2}, "generation": 2}},
        "project_id": "own",
        "user_id": "somebody",
        "consumer_generation": 1,
        "consumer_type": "INSTANCE",
    }
    assert (await client.get(path, at=11)).keys() == {"allocations"}
    on_host = await client.get(f"{PROVIDER}/allocations")
    assert on_host == {
        "allocations": {SERVER: {"resources": {"VCPU": 2}, "consumer_generation": 1}},
        "resource_provider_generation": 2,
    }
    error = await client.refused(409, "PUT", path, claim(TWO_CPUS))
    assert error["code"] == "placement.concurrent_update"
    await client.done("PUT", path, claim({HOST: {"resources": {"VCPU": 3}}}, generation=1))
    await client.done("PUT", path, claim({}, generation=2))
    assert await client.get(path) == {"allocations": {}}
    await client.refused(404, "DELETE", path)


async def test_delete_allocations(client: Client) -> None:
    await make_host(client)
    await client.done("PUT", f"/allocations/{SERVER}", claim(TWO_CPUS))
    await client.done("DELETE", f"/allocations/{SERVER}")
    assert (await client.get(f"{PROVIDER}/usages"))["usages"]["VCPU"] == 0


async def test_old_forms_of_allocations(client: Client) -> None:
    await make_host(client)
    path = f"/allocations/{SERVER}"
    old = {"allocations": [{"resource_provider": {"uuid": HOST}, "resources": {"VCPU": 1}}]}
    await client.done("PUT", path, old, at=7)
    found = await client.get(path)
    assert found["project_id"] == found["user_id"] == "00000000-0000-0000-0000-000000000000"
    assert found["consumer_type"] == "unknown"
    await client.refused(400, "PUT", path, old, at=8)
    await client.done("PUT", path, {**old, "project_id": "own", "user_id": "somebody"}, at=11)
    await client.done("PUT", path, {"allocations": TWO_CPUS, "project_id": "own", "user_id": "somebody"}, at=12)
    assert (await client.get(path))["consumer_generation"] == 3
    await client.refused(400, "PUT", path, {"allocations": {}, "project_id": "own", "user_id": "somebody"}, at=12)


@pytest.mark.parametrize(
    ("allocations", "status", "detail"),
    [
        ({HOST: {"resources": {"VCPU": 9}}}, 409, "9 wanted, 8 free"),
        ({HOST: {"resources": {"VCPU": 2**31}}}, 409, "max_unit"),
        ({HOST: {"resources": {"VCPU": 10**30}}}, 409, "max_unit"),
        ({HOST: {"resources": {"DISK_GB": 1}}}, 409, "Inventory for 'DISK_GB' on"),
        ({HOST: {"resources": {"CUSTOM_X": 1}}}, 400, "CUSTOM_X"),
        ({CHILD: {"resources": {"VCPU": 1}}}, 400, CHILD),
        ({HOST: {"resources": {"VCPU": 0}}}, 400, "VCPU"),
        ({HOST: {"resources": {"VCPU": -1}}}, 400, "VCPU"),
        ({HOST: {"resources": {}}}, 400, "resources"),
        ({"nonsense": {"resources": {"VCPU": 1}}}, 400, "nonsense"),
        ([], 400, "allocations"),
    ],
    ids=str,
)
async def test_bad_allocations(client: Client, allocations: Any, status: int, detail: str) -> None:
    await make_host(client)
    error = await client.refused(status, "PUT", f"/allocations/{SERVER}", claim(allocations))
    assert detail in error["detail"]
    assert error["code"] == "placement.undefined_code"
    assert await client.get(f"/allocations/{SERVER}") == {"allocations": {}}


async def test_consumers_are_uuids(client: Client) -> None:
    await make_host(client)
    await client.refused(400, "PUT", "/allocations/nonsense", claim(TWO_CPUS))
    await client.refused(400, "POST", "/allocations", {"nonsense": claim(TWO_CPUS)})


async def test_swap_of_two_consumers_in_one_write(client: Client) -> None:
    await make_host(client)
    await make_host(client, CHILD, "other")
    await client.done("PUT", f"/allocations/{SERVER}", claim({HOST: {"resources": {"VCPU": 8}}}))
    swap = {
        MOVE: claim({HOST: {"resources": {"VCPU": 8}}}, consumer_type="MIGRATION"),
        SERVER: claim({CHILD: {"resources": {"VCPU": 9}}}, generation=1),
    }
    await client.refused(409, "POST", "/allocations", swap)
    assert await client.get(f"/allocations/{MOVE}") == {"allocations": {}}
    swap[SERVER] = claim({CHILD: {"resources": {"VCPU": 3}}}, generation=1)
    assert (await client.done("POST", "/allocations", swap)).status_code == 204
    assert (await client.get(f"{PROVIDER}/allocations"))["allocations"].keys() == {MOVE}
    usages = (await client.get("/usages?project_id=own"))["usages"]
    assert usages == {
        "INSTANCE": {"VCPU": 3, "consumer_count": 1},
        "MIGRATION": {"VCPU": 8, "consumer_count": 1},
    }
    assert (await client.get("/usages?project_id=own&consumer_type=all"))["usages"] == {
        "all": {"VCPU": 11, "consumer_count": 2}
    }
    assert (await client.get("/usages?project_id=own&consumer_type=INSTANCE"))["usages"].keys() == {"INSTANCE"}
    assert await client.get("/usages?project_id=own&user_id=somebody", at=37) == {"usages": {"VCPU": 11}}


# Candidates


async def test_candidates(client: Client) -> None:
    await make_host(client)
    found = await client.get("/allocation_candidates?resources=VCPU:2,MEMORY_MB:512")
    resources = {"VCPU": 2, "MEMORY_MB": 512}
    assert found["allocation_requests"] == [{"allocations": {HOST: {"resources": resources}}, "mappings": {"": [HOST]}}]
    assert found["provider_summaries"] == {
        HOST: {
            "resources": {"VCPU": {"capacity": 8, "used": 0}, "MEMORY_MB": {"capacity": 1024, "used": 0}},
            "traits": [],
            "parent_provider_uuid": None,
            "root_provider_uuid": HOST,
        }
    }
    body = claim(found["allocation_requests"][0]["allocations"])
    await client.done("PUT", f"/allocations/{SERVER}", body)


async def test_candidates_of_old_versions(client: Client) -> None:
    await make_host(client)
    query = "/allocation_candidates?resources=VCPU:2"
    found = await client.get(query, at=10)
    assert found["allocation_requests"] == [
        {"allocations": [{"resource_provider": {"uuid": HOST}, "resources": {"VCPU": 2}}]}
    ]
    assert found["provider_summaries"] == {HOST: {"resources": {"VCPU": {"capacity": 8, "used": 0}}}}
    await client.refused(404, "GET", query, at=9)
    await client.refused(400, "GET", f"{query}&limit=1", at=15)


async def test_candidates_are_limited(client: Client) -> None:
    for number in range(4):
        await make_host(client, f"11111111-0000-4000-8000-00000000000{number}", f"host{number}")
    found = await client.get("/allocation_candidates?resources=VCPU:2&limit=3")
    assert len(found["allocation_requests"]) == len(found["provider_summaries"]) == 3


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?resources=",
        "?resources=VCPU:1&limit=0",
        "?resources=VCPU:1&limit=x",
        "?resources=VCPU:1&limit=",
        "?resources=VCPU&resources=VCPU:1",
        "?resources=VCPU:1&unknown=1",
        "?resources=VCPU:1&required=NONSENSE",
        "?resources=NONSENSE:1",
    ],
)
async def test_bad_requests_for_candidates(client: Client, query: str) -> None:
    await client.refused(400, "GET", f"/allocation_candidates{query}")
