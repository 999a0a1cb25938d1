"""Keypairs, as Nova's clients see them."""

from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_public_key

from tests.api.front import PROJECT, USER, Front, fault
from whimbrel.api.catalog import key_generation
from whimbrel.domain.errors import Invalid

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJGp3ThOBYOgXBMdMfBGfxgmrmCxWTnLHgdD6jd2JZnS me@home"
ED25519_MD5 = "af:01:92:34:8d:33:97:80:8e:e0:28:9a:e5:8e:51:72"


async def create(front: Front, minor: int = 104, who: str = "member", **requested: Any) -> httpx.Response:
    body = {"keypair": {"name": "mine", "public_key": ED25519, **requested}}
    body["keypair"] = {key: value for key, value in body["keypair"].items() if value is not None}
    return await front.ask("POST", "/os-keypairs", body, minor=minor, who=who)


async def test_a_key_is_imported(front: Front) -> None:
    answer = await create(front)
    shown = {
        "name": "mine",
        "type": "ssh",
        "user_id": USER,
        "public_key": ED25519,
        "fingerprint": key_generation.ssh_fingerprint(ED25519),
    }
    assert (answer.status_code, answer.json()) == (201, {"keypair": shown})
    one = (await front.get("/os-keypairs/mine"))["keypair"]
    assert one.pop("created_at")
    assert one == shown | {"id": 1, "updated_at": None, "deleted": False, "deleted_at": None}
    del shown["user_id"]
    assert await front.get("/os-keypairs") == {"keypairs": [{"keypair": shown}]}


async def test_status_and_type_came_with_2_2(front: Front) -> None:
    answer = await create(front, minor=1)
    assert (answer.status_code, "type" in answer.json()["keypair"]) == (200, False)
    assert "type" not in (await front.get("/os-keypairs/mine", minor=1))["keypair"]
    assert (await front.ask("DELETE", "/os-keypairs/mine", minor=1)).status_code == 202
    fault(await create(front, minor=1, type="ssh"), "badRequest", 400)
    assert (await create(front, minor=2, type="ssh")).status_code == 201
    assert (await front.ask("DELETE", "/os-keypairs/mine", minor=2)).status_code == 204
    fault(await front.ask("DELETE", "/os-keypairs/mine"), "itemNotFound", 404)


async def test_a_key_is_made_below_2_92(front: Front) -> None:
    answer = await create(front, minor=91, public_key=None)
    made = answer.json()["keypair"]
    assert made["public_key"].endswith(" Generated-by-Nova")
    private = load_pem_private_key(made["private_key"].encode(), None)
    public = load_ssh_public_key(made["public_key"].encode())
    assert private.public_key() == public
    assert made["fingerprint"] == key_generation.ssh_fingerprint(made["public_key"])
    assert "private_key" not in (await front.get("/os-keypairs/mine"))["keypair"]
    fault(await create(front, minor=92, name="other", public_key=None), "badRequest", 400)


async def test_a_certificate_is_made_and_imported(front: Front) -> None:
    made = (await create(front, minor=91, type="x509", public_key=None)).json()["keypair"]
    certificate = x509.load_pem_x509_certificate(made["public_key"].encode())
    assert load_pem_private_key(made["private_key"].encode(), None).public_key() == certificate.public_key()
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names[0].value == b"\x0c\x2a" + f"{USER}@localhost".encode()  # type: ignore[union-attr]
    again = (await create(front, name="again", type="x509", public_key=made["public_key"])).json()["keypair"]
    assert (again["type"], again["fingerprint"]) == ("x509", made["fingerprint"])
    assert made["fingerprint"].count(":") == 19


@pytest.mark.parametrize(
    "requested",
    [
        {"name": ""},
        {"name": "a\u00e9"},
        {"name": "a/b"},
        {"name": "x" * 256},
        {"name": " a"},
        {"public_key": "ssh-ed25519"},
        {"public_key": "ssh-ed25519 AAAA me"},
        {"public_key": "ssh-ed25519 ???? me"},
        {"public_key": "\u00e9"},
        {"public_key": ""},
        {"type": "pgp"},
        {"type": "x509"},
        {"colour": "blue"},
    ],
)
async def test_bad_keypairs_are_refused(front: Front, requested: dict[str, Any]) -> None:
    fault(await create(front, **requested), "badRequest", 400)
    assert (await front.get("/os-keypairs"))["keypairs"] == []


async def test_more_characters_in_names_from_2_92(front: Front) -> None:
    fault(await create(front, minor=91, name="me@home.org"), "badRequest", 400)
    assert (await create(front, minor=92, name="me@home.org")).status_code == 201
    assert (await front.get("/os-keypairs/me@home.org"))["keypair"]["name"] == "me@home.org"


async def test_a_name_is_taken_once(front: Front) -> None:
    await create(front)
    assert fault(await create(front), "conflictingRequest", 409) == "Key pair 'mine' already exists."


async def test_the_quota_holds(front: Front) -> None:
    await front.ask("PUT", f"/os-quota-sets/{PROJECT}", {"quota_set": {"key_pairs": 1}}, who="admin")
    await create(front)
    assert fault(await create(front, name="two"), "forbidden", 403) == "Quota exceeded, too many key pairs."


async def test_other_users_keypairs_are_for_administrators(front: Front) -> None:
    assert (await create(front, who="admin", user_id=USER)).json()["keypair"]["user_id"] == USER
    assert len((await front.get("/os-keypairs"))["keypairs"]) == 1
    assert len((await front.get("/os-keypairs", who="admin"))["keypairs"]) == 0
    assert len((await front.get(f"/os-keypairs?user_id={USER}", who="admin"))["keypairs"]) == 1
    fault(await front.ask("GET", "/os-keypairs?user_id=admin"), "forbidden", 403)
    fault(await create(front, user_id="admin"), "forbidden", 403)
    fault(await create(front, who="admin", minor=9, user_id=USER), "badRequest", 400)
    fault(await front.ask("DELETE", "/os-keypairs/mine", who="admin"), "itemNotFound", 404)
    assert (await front.ask("DELETE", f"/os-keypairs/mine?user_id={USER}", who="admin")).status_code == 204


async def test_lists_are_paged_from_2_35(front: Front) -> None:
    for name in "cab":
        await create(front, name=name)

    async def names(query: str, minor: int = 104) -> list[str]:
        return [item["keypair"]["name"] for item in (await front.get(f"/os-keypairs{query}", minor=minor))["keypairs"]]

    assert await names("") == ["a", "b", "c"]
    assert await names("?limit=2") == ["a", "b"]
    assert await names("?marker=a") == ["b", "c"]
    assert await names("?limit=1", minor=34) == ["a", "b", "c"]
    link = (await front.get("/os-keypairs?limit=2"))["keypairs_links"][0]["href"]
    assert link == "http://cloud:8774/compute/v2.1/os-keypairs?limit=2&marker=b"
    fault(await front.ask("GET", "/os-keypairs?marker=z"), "badRequest", 400)


def test_the_fingerprint_is_what_ssh_keygen_tells() -> None:
    assert key_generation.ssh_fingerprint(ED25519) == ED25519_MD5


def test_a_kind_of_key_that_nobody_knows_yet_is_taken_if_it_is_whole() -> None:
    new = "ssh-new AAAAB3NzaC1uZXcAAAAEZGF0YQ== me"
    assert key_generation.ssh_fingerprint(new).count(":") == 15
    with pytest.raises(Invalid):
        key_generation.ssh_fingerprint("ssh-newer AAAAB3NzaC1uZXcAAAAEZGF0YQ== me")
