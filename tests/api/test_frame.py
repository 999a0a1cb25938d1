"""The frame: versions, tokens, headers, errors. Every answer has Nova's shape."""

import pytest

from tests.api.front import PROJECT, Front, fault
from whimbrel.api.http.microversions import LAST
from whimbrel.api.routes import ROUTES


async def test_the_root_lists_the_versions_without_a_token(front: Front) -> None:
    answer = await front.raw("GET", "/compute/")
    [old, version] = answer.json()["versions"]
    assert (old["id"], old["status"], old["version"]) == ("v2.0", "DEPRECATED", "")
    assert (version["version"], version["min_version"]) == (f"2.{LAST}", "2.1")
    assert version["links"][0]["href"] == "http://cloud:8774/compute/v2.1/"


@pytest.mark.parametrize("path", ["/compute/v2.1", "/compute/v2.1/"])
async def test_a_version_describes_itself_without_a_token(front: Front, path: str) -> None:
    answer = await front.raw("GET", path)
    assert answer.status_code == 200
    assert answer.json()["version"]["status"] == "CURRENT"


async def test_a_path_under_no_version_gets_the_choices(front: Front) -> None:
    answer = await front.raw("GET", "/compute/servers")
    assert answer.status_code == 300
    hrefs = [choice["links"][0]["href"] for choice in answer.json()["choices"]]
    assert [href.removeprefix("http://cloud:8774/compute/") for href in hrefs] == ["v2/servers", "v2.1/servers"]


async def test_several_slashes_are_one(front: Front) -> None:
    server_id = await front.boot()
    assert (await front.show(f"/{server_id}"))["id"] == server_id
    assert (await front.raw("GET", "/compute//v2.1//")).json()["version"]["id"] == "v2.1"
    found = await front.get("//servers//detail?limit=1")
    assert [server["id"] for server in found["servers"]] == [server_id]
    assert found["servers_links"][0]["href"].startswith("http://cloud:8774/compute/v2.1/servers/detail?")
    fault(await front.ask("GET", "/servers//"), "itemNotFound", 404)


async def test_v2_is_the_first_version_whatever_is_asked(front: Front) -> None:
    headers = {"X-Auth-Token": "member", "OpenStack-API-Version": "compute latest"}
    answer = await front.raw("GET", "/compute/v2/flavors", headers=headers)
    assert "description" not in answer.json()["flavors"][0]
    assert "OpenStack-API-Version" not in answer.headers
    document = (await front.raw("GET", "/compute/v2/")).json()["version"]
    assert (document["id"], document["links"][0]["href"]) == ("v2.0", "http://cloud:8774/compute/v2/")


async def test_an_action_of_other_versions_is_404_and_an_unknown_one_400(front: Front) -> None:
    migration = f"/servers/{await front.boot()}/action"
    fault(await front.ask("POST", migration, {"resetNetwork": None}), "computeFault", 410)
    fault(await front.ask("POST", migration, {"noSuchAction": None}), "badRequest", 400)
    answer = await front.ask("POST", "/os-baremetal-nodes/1/action", {"add_interface": {}}, who="admin", minor=36)
    fault(answer, "itemNotFound", 404)


@pytest.mark.parametrize(
    ("headers", "minor"),
    [
        ({}, 1),
        ({"OpenStack-API-Version": "compute 2.30"}, 30),
        ({"OpenStack-API-Version": "compute latest"}, LAST),
        ({"OpenStack-API-Version": "volume 3.1, compute 2.30"}, 30),
        ({"OpenStack-API-Version": "volume 3.1"}, 1),
        ({"X-OpenStack-Nova-API-Version": "2.12"}, 12),
        ({"X-OpenStack-Nova-API-Version": "latest"}, LAST),
        ({"OpenStack-API-Version": "compute 2.30", "X-OpenStack-Nova-API-Version": "2.12"}, 30),
    ],
)
async def test_a_version_is_negotiated_and_echoed(front: Front, headers: dict[str, str], minor: int) -> None:
    answer = await front.ask("GET", "/servers", minor=None, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["OpenStack-API-Version"] == f"compute 2.{minor}"
    assert answer.headers["X-OpenStack-Nova-API-Version"] == f"2.{minor}"
    assert answer.headers["Vary"] == "OpenStack-API-Version, X-OpenStack-Nova-API-Version"


async def test_versions_of_several_services_may_be_several_headers(front: Front) -> None:
    headers = [("X-Auth-Token", "member"), ("OpenStack-API-Version", "compute 2.30")]
    headers.append(("OpenStack-API-Version", "placement 1.36"))
    answer = await front.raw("GET", "/compute/v2.1/servers", headers=headers)
    assert answer.headers["OpenStack-API-Version"] == "compute 2.30"


@pytest.mark.parametrize("version", ["2.105", "2.0", "3.1", "1.1"])
async def test_a_version_that_is_not_there_is_406(front: Front, version: str) -> None:
    answer = await front.ask("GET", "/servers", minor=None, headers={"OpenStack-API-Version": f"compute {version}"})
    assert version in fault(answer, "computeFault", 406)


@pytest.mark.parametrize("version", ["2", "two", "2.x", "2.1.1"])
async def test_an_unreadable_version_is_400(front: Front, version: str) -> None:
    answer = await front.ask("GET", "/servers", minor=None, headers={"X-OpenStack-Nova-API-Version": version})
    fault(answer, "badRequest", 400)


@pytest.mark.parametrize("headers", [{}, {"X-Auth-Token": "expired"}])
async def test_without_a_valid_token_it_is_401(front: Front, headers: dict[str, str]) -> None:
    answer = await front.raw("GET", "/compute/v2.1/servers", headers=headers)
    fault(answer, "unauthorized", 401)
    assert answer.headers["WWW-Authenticate"] == 'Keystone uri="http://cloud:8774/identity"'


async def test_every_request_has_an_id_of_its_own(front: Front) -> None:
    answers = [await front.ask("GET", path) for path in ("/servers", "/servers", "/nowhere")]
    ids = {answer.headers["X-OpenStack-Request-ID"] for answer in answers}
    assert len(ids) == 3
    assert all(answer.headers["x-compute-request-id"].startswith("req-") for answer in answers)


async def test_the_project_may_be_in_the_url(front: Front) -> None:
    server_id = await front.boot()
    answer = await front.get(f"/{PROJECT}/servers/{server_id}")
    assert answer["server"]["links"][0]["href"].endswith(f"/compute/v2.1/{PROJECT}/servers/{server_id}")
    fault(await front.ask("GET", "/0123456789abcdef/servers"), "badRequest", 400)


async def test_what_is_nowhere_is_404_and_so_is_a_wrong_method(front: Front) -> None:
    fault(await front.ask("GET", "/nowhere"), "itemNotFound", 404)
    fault(await front.ask("GET", "/servers/a/b/c"), "itemNotFound", 404)
    for method, path in (("PATCH", "/servers"), ("DELETE", "/images/"), ("DELETE", "/os-security-groups/")):
        fault(await front.ask(method, path, minor=1), "itemNotFound", 404)
    for path in ("/servers/", "/os-simple-tenant-usage/", f"/{PROJECT}/servers/", f"/{PROJECT}/"):
        fault(await front.ask("GET", path, who="admin"), "itemNotFound", 404)


async def test_a_url_of_a_later_version_is_404(front: Front) -> None:
    server_id = await front.boot()
    fault(await front.ask("GET", f"/servers/{server_id}/tags", minor=25), "itemNotFound", 404)
    assert await front.get(f"/servers/{server_id}/tags", minor=26) == {"tags": []}


@pytest.mark.parametrize(
    ("content", "headers", "name", "code"),
    [
        (b"{", {"Content-Type": "application/json"}, "badRequest", 400),
        (b'"text"', {"Content-Type": "application/json"}, "badRequest", 400),
        (b"", {"Content-Type": "application/json"}, "badRequest", 400),
        (b'{"server": {"name": "\\u0000"}}', {"Content-Type": "application/json"}, "badRequest", 400),
        (b'{"server": {"name": "\\ud800"}}', {"Content-Type": "application/json"}, "badRequest", 400),
        (b"<server/>", {"Content-Type": "application/xml"}, "badMediaType", 415),
        (b" " * 10_000_000, {"Content-Type": "application/json"}, "overLimit", 413),
        (b'{"a":' * 500 + b"1" + b"}" * 500, {"Content-Type": "application/json"}, "badRequest", 400),
        (b"[" * 1000_000, {"Content-Type": "application/json"}, "badRequest", 400),
    ],
)
async def test_a_bad_body_gets_its_code(
    front: Front, content: bytes, headers: dict[str, str], name: str, code: int
) -> None:
    fault(await front.ask("POST", "/servers", content=content, headers=headers), name, code)


async def test_a_large_body_without_a_length_is_stopped_at_the_limit(front: Front) -> None:
    async def chunks() -> object:
        for _ in range(1000):
            yield b" " * 100_000

    answer = await front.ask("POST", "/servers", content=chunks(), headers={"Content-Type": "application/json"})
    fault(answer, "overLimit", 413)


async def test_unknown_query_keys_are_dropped_until_they_are_refused(front: Front) -> None:
    server_id = await front.boot()
    await front.get("/servers?nonsense=1", minor=74)
    fault(await front.ask("GET", "/servers?nonsense=1", minor=75), "badRequest", 400)
    await front.get(f"/servers/{server_id}?nonsense=1", minor=101)
    fault(await front.ask("GET", f"/servers/{server_id}?nonsense=1", minor=102), "badRequest", 400)


async def test_a_bug_of_ours_is_500_and_tells_nothing(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(front.world.cloud.directory, "unplaced", broken)
    answer = await front.ask("GET", "/servers")
    message = fault(answer, "computeFault", 500)
    assert "secret" not in message
    assert answer.headers["x-compute-request-id"] in message


async def test_the_openapi_document_has_every_route(front: Front) -> None:
    document = await front.get("/whimbrel/openapi.json")
    assert set(document["paths"]) == {route.path for route in ROUTES if route.until is None and not route.refuses}
    [url] = [server["url"] for server in document["servers"]]
    assert url == "http://cloud:8774/compute/v2.1"


async def test_extensions_are_listed(front: Front) -> None:
    aliases = [extension["alias"] for extension in (await front.get("/extensions"))["extensions"]]
    assert {"os-hosts", "os-consoles", "os-server-groups"} <= set(aliases)
    assert (await front.get("/extensions/os-services"))["extension"]["name"] == "Services"
    fault(await front.ask("GET", "/extensions/nothing"), "itemNotFound", 404)
