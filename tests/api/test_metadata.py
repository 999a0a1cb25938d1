"""Metadata, tags and addresses of servers."""

from urllib.parse import quote

import pytest

from tests.api.front import PROJECT, Front, fault


async def test_metadata_is_read_merged_replaced_and_removed(front: Front) -> None:
    path = f"/servers/{await front.boot(metadata={'a': '1'})}/metadata"
    assert await front.get(path) == {"metadata": {"a": "1"}}
    answer = await front.ask("POST", path, {"metadata": {"b": "2"}})
    assert (answer.status_code, answer.json()) == (200, {"metadata": {"a": "1", "b": "2"}})
    answer = await front.ask("PUT", f"{path}/b", {"meta": {"b": "3"}})
    assert answer.json() == {"meta": {"b": "3"}}
    assert await front.get(f"{path}/b") == {"meta": {"b": "3"}}
    assert (await front.ask("DELETE", f"{path}/a")).status_code == 204
    assert (await front.ask("PUT", path, {"metadata": {"c": "4"}})).json() == {"metadata": {"c": "4"}}
    assert await front.get(path) == {"metadata": {"c": "4"}}


async def test_wrong_metadata_is_refused(front: Front) -> None:
    server_id = await front.boot()
    path = f"/servers/{server_id}/metadata"
    fault(await front.ask("GET", f"{path}/nothing"), "itemNotFound", 404)
    fault(await front.ask("DELETE", f"{path}/nothing"), "itemNotFound", 404)
    fault(await front.ask("PUT", f"{path}/a", {"meta": {"b": "1"}}), "badRequest", 400)
    fault(await front.ask("PUT", f"{path}/a", {"meta": {"a": "1", "b": "1"}}), "badRequest", 400)
    fault(await front.ask("POST", path, {"metadata": {"a": None}}), "badRequest", 400)
    fault(await front.ask("POST", path, {"metadata": {"": "1"}}), "badRequest", 400)
    fault(await front.ask("POST", path, {"metadata": {"a": "x" * 256}}), "badRequest", 400)
    fault(await front.ask("POST", path, {"metadata": {}}, who="reader"), "forbidden", 403)
    await front.world.cloud.quotas.set_limits(PROJECT, {"metadata_items": 1})
    fault(await front.ask("POST", path, {"metadata": {"a": "1", "b": "2"}}), "forbidden", 403)
    fault(await front.ask("GET", "/servers/nobody/metadata"), "itemNotFound", 404)


async def test_tags_are_read_added_replaced_and_removed(front: Front) -> None:
    server_id = await front.boot(tags=["a"])
    path = f"/servers/{server_id}/tags"
    answer = await front.ask("PUT", f"{path}/b")
    assert (answer.status_code, answer.headers["Location"].endswith(f"{path}/b")) == (201, True)
    assert (await front.ask("PUT", f"{path}/b")).status_code == 204
    fault(await front.ask("PUT", f"{path}/b", {"tag": "b"}), "badRequest", 400)
    assert (await front.ask("PUT", f"{path}/é")).headers["Location"].endswith("/tags/%C3%A9")
    assert (await front.ask("DELETE", f"{path}/é")).status_code == 204
    assert await front.get(path) == {"tags": ["a", "b"]}
    assert (await front.ask("GET", f"{path}/b")).status_code == 204
    assert (await front.ask("DELETE", f"{path}/a")).status_code == 204
    assert (await front.ask("PUT", path, {"tags": ["c", "d", "c"]})).json() == {"tags": ["c", "d"]}
    assert (await front.ask("DELETE", path)).status_code == 204
    assert await front.get(path) == {"tags": []}


@pytest.mark.parametrize("tag", ["a,b", "x" * 61])
async def test_a_wrong_tag_is_400(front: Front, tag: str) -> None:
    server_id = await front.boot()
    fault(await front.ask("PUT", f"/servers/{server_id}/tags/{quote(tag)}"), "badRequest", 400)
    fault(await front.ask("PUT", f"/servers/{server_id}/tags", {"tags": [tag]}), "badRequest", 400)


async def test_there_are_fifty_tags_and_no_more(front: Front) -> None:
    server_id = await front.boot(tags=[f"t{number}" for number in range(50)])
    fault(await front.ask("PUT", f"/servers/{server_id}/tags/more"), "badRequest", 400)
    assert (await front.ask("PUT", f"/servers/{server_id}/tags/t1")).status_code == 204
    fault(await front.ask("GET", f"/servers/{server_id}/tags/more"), "itemNotFound", 404)
    fault(await front.ask("DELETE", f"/servers/{server_id}/tags/more"), "itemNotFound", 404)


async def test_a_server_that_never_ran_has_no_tags_to_change(front: Front) -> None:
    server_id = await front.boot(settle=False)
    fault(await front.ask("PUT", f"/servers/{server_id}/tags", {"tags": []}), "conflictingRequest", 409)
    fault(await front.ask("POST", f"/servers/{server_id}/metadata", {"metadata": {}}), "conflictingRequest", 409)


async def test_there_are_no_addresses_yet(front: Front) -> None:
    server_id = await front.boot()
    assert await front.get(f"/servers/{server_id}/ips") == {"addresses": {}}
    fault(await front.ask("GET", f"/servers/{server_id}/ips/private"), "itemNotFound", 404)
