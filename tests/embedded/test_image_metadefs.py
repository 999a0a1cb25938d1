"""Metadata definitions of the embedded image service, over HTTP."""

import pytest

from tests.embedded.opened import Opened

SPACES = "/image/v2/metadefs/namespaces"
CPU = {"name": "cpu_pinning", "title": "CPU pinning", "type": "string", "enum": ["shared", "dedicated"]}
BODY = {
    "namespace": "OS::Compute::CPU",
    "display_name": "CPU",
    "visibility": "public",
    "resource_type_associations": [{"name": "OS::Nova::Flavor", "prefix": "hw:"}],
    "properties": {"cpu_sockets": {"title": "Sockets", "type": "integer"}},
}
ONE = f"{SPACES}/{BODY['namespace']}"


@pytest.fixture
async def defined(services: Opened) -> Opened:
    """A cloud with a namespace."""
    assert (await services.ask("root", "POST", SPACES, BODY)).status_code == 201
    return services


async def test_everybody_reads_what_administrators_define(defined: Opened) -> None:
    assert (await defined.ask("root", "POST", SPACES, BODY)).status_code == 409
    assert (await defined.ask("ann", "POST", SPACES, {**BODY, "namespace": "mine"})).status_code == 403
    [listed] = (await defined.ask("ann", "GET", f"{SPACES}?resource_types=OS::Nova::Flavor")).json()["namespaces"]
    assert (listed["namespace"], listed["display_name"]) == (BODY["namespace"], "CPU")
    assert (await defined.ask("ann", "GET", f"{SPACES}?resource_types=OS::Glance::Image")).json()["namespaces"] == []
    assert (await defined.ask("ann", "GET", ONE)).json()["properties"] == BODY["properties"]
    types = (await defined.ask("ann", "GET", "/image/v2/metadefs/resource_types")).json()["resource_types"]
    assert {"name": "OS::Nova::Flavor"} in types
    assert {"name": "OS::Glance::Image"} in types  # without any namespace of it


async def test_properties_are_added_changed_and_deleted(defined: Opened) -> None:
    assert (await defined.ask("root", "POST", f"{ONE}/properties", CPU)).status_code == 201
    assert (await defined.ask("root", "POST", f"{ONE}/properties", CPU)).status_code == 409
    renamed = {**CPU, "name": "cpu_policy"}
    assert (await defined.ask("root", "PUT", f"{ONE}/properties/cpu_pinning", renamed)).status_code == 200
    assert (await defined.ask("ann", "GET", f"{ONE}/properties/cpu_pinning")).status_code == 404
    assert (await defined.ask("ann", "GET", f"{ONE}/properties/cpu_policy")).json() == renamed
    assert (await defined.ask("root", "DELETE", f"{ONE}/properties")).status_code == 204
    assert (await defined.ask("ann", "GET", f"{ONE}/properties")).json() == {"properties": {}}


async def test_tags(defined: Opened) -> None:
    assert (
        await defined.ask("root", "POST", f"{ONE}/tags", {"tags": [{"name": "b"}, {"name": "a"}]})
    ).status_code == 201
    assert (await defined.ask("root", "POST", f"{ONE}/tags/c")).status_code == 201
    assert (await defined.ask("root", "PUT", f"{ONE}/tags/b", {"name": "a"})).status_code == 409
    assert (await defined.ask("root", "PUT", f"{ONE}/tags/z", {"name": "y"})).status_code == 404
    assert (await defined.ask("root", "PUT", f"{ONE}/tags/b", {"name": "d"})).json() == {"name": "d"}
    assert (await defined.ask("root", "DELETE", f"{ONE}/tags/d")).status_code == 204
    assert (await defined.ask("ann", "GET", f"{ONE}/tags")).json() == {"tags": [{"name": "a"}, {"name": "c"}]}


async def test_tags_are_added_or_replaced_as_the_header_says(defined: Opened) -> None:
    async def send(*names: str, **headers: str) -> int:
        body = {"tags": [{"name": name} for name in names]}
        return (await defined.ask("root", "POST", f"{ONE}/tags", body, **headers)).status_code

    async def tags() -> list[str]:
        return [tag["name"] for tag in (await defined.ask("ann", "GET", f"{ONE}/tags")).json()["tags"]]

    assert await send("a", "b") == 201
    assert await send("c", X_OpenStack_Append="True") == 201
    assert await tags() == ["a", "b", "c"]
    assert await send("d", "c", X_OpenStack_Append="True") == 409
    assert await send("d", X_OpenStack_Append="False") == 201
    assert await tags() == ["d"]


async def test_a_private_or_protected_namespace(defined: Opened) -> None:
    private = {"namespace": BODY["namespace"], "visibility": "private", "protected": True}
    assert (await defined.ask("root", "PUT", ONE, private)).status_code == 200
    assert (await defined.ask("ann", "GET", ONE)).status_code == 404
    assert (await defined.ask("root", "DELETE", ONE)).status_code == 403
    assert (await defined.ask("root", "PUT", ONE, {**private, "protected": False})).status_code == 200
    assert (await defined.ask("root", "DELETE", ONE)).status_code == 204
    assert (await defined.ask("root", "GET", ONE)).status_code == 404


@pytest.mark.parametrize(
    ("path", "name"),
    [
        *((word, word) for word in ("namespace", "namespaces", "object", "objects", "property", "properties")),
        *(("tag", "tag"), ("tags", "tags"), ("resource_type", "resource_type_association")),
        ("resource_types", "resource_type_associations"),
    ],
)
async def test_schemas_are_those_of_glance(services: Opened, path: str, name: str) -> None:
    schema = (await services.ask("eve", "GET", f"/image/v2/schemas/metadefs/{path}")).json()
    assert schema["name"] == name
    assert schema["properties"]


async def test_a_path_without_an_id_is_not_that_of_the_list(services: Opened) -> None:
    for method in ("GET", "DELETE"):
        assert (await services.ask("root", method, "/image/v2/images/")).status_code == 404
