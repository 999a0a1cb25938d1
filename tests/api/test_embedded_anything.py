"""Whatever is sent to the identity and image services, they answer, and never with an error of their own."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.anything import Anything
from tests.depth import examples
from tests.embedded.opened import Opened, opened
from whimbrel.embedded.identity.app import ROUTES as IDENTITY
from whimbrel.embedded.image.app import ROUTES as IMAGE

ID = "11111111-0000-4000-8000-000000000000"
ROUTES = [("/identity", method, path) for method, path, *_ in IDENTITY]
ROUTES += [("/image", method, path) for method, path, _ in IMAGE]

PEOPLE = ["root", "root", "ann", "eve", ""]
TYPES = {
    ("/image", "PATCH"): "application/openstack-images-v2.1-json-patch",
    ("/image", "PUT"): "application/octet-stream",
}

ANYTHING = Anything(
    *("ann", "p1", "default", "r-member", "raw", "bare", "public", "shared", "accepted", "name", "tags", ID),
    *("in:a,b", "/name"),
)

USER: dict[str, Any] = {
    "name": "new",
    "domain_id": "default",
    "password": "p",
    "default_project_id": "p1",
    "enabled": True,
}
PROVED: dict[str, Any] = {"user": {"name": "ann", "domain": {"id": "default"}, "password": "p"}}
GOOD: dict[str, list[Any]] = {
    "/v3/auth/tokens": [
        {"auth": {"identity": {"methods": ["password"], "password": PROVED}, "scope": {"project": {"id": "p1"}}}},
        {"auth": {"identity": {"methods": ["token"], "token": {"id": "token of ann"}}, "scope": "unscoped"}},
        {"auth": {"identity": {"methods": ["token"], "token": {"id": "token of ann"}}, "scope": {"system": {}}}},
    ],
    "/v3/users": [{"user": USER}, {"user": {"password": "q", "enabled": False}}],
    "/v3/users/{user_id}/password": [{"user": {"password": "q", "original_password": "p"}}],
    "/v3/projects": [{"project": {"name": "new", "domain_id": "default", "description": "d", "enabled": False}}],
    "/v3/roles": [{"role": {"name": "new", "description": None}}],
    "/v2/images": [
        {"name": "i", "disk_format": "raw", "container_format": "bare", "min_disk": 1, "tags": ["t"], "own": "x"},
        {"name": "i", "visibility": "public", "owner": "p2", "protected": True, "os_hidden": True},
    ],
    "/v2/images/{image_id}": [
        [{"op": "replace", "path": "/name", "value": "n"}, {"op": "add", "path": "/own", "value": "x"}],
        [{"op": "remove", "path": "/own"}, {"op": "replace", "path": "/visibility", "value": "community"}],
    ],
    "/v2/images/{image_id}/members": [{"member": "p2"}],
    "/v2/images/{image_id}/members/{project_id}": [{"status": "accepted"}],
}
KNOWN = {
    "image_id": ID,
    "user_id": "ann",
    "project_id": "p2",
    "role_id": "r-member",
    "tag": "t",
    "domain_id": "default",
}


def good_for(path: str) -> list[Any]:
    """Return bodies that may be sent to a URL, or to what it is a part of."""
    while path not in GOOD and path:
        path = path.rpartition("/")[0]
    return GOOD.get(path, [{}])


KEYS = ["name", "limit", "marker", "sort", "sort_key", "sort_dir", "visibility", "member_status", "status", "tag"]
KEYS += ["size_min", "protected", "owner", "created_at", "x"]
KEYS += ["domain_id", "enabled", "user.id", "scope.project.id", "nocatalog"]
queries = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["true", "1", "0", "active", "asc", *ANYTHING.every_word])),
    max_size=3,
)


@st.composite
def request(draw: st.DrawFn) -> tuple[Any, ...]:
    service, method, path = draw(st.sampled_from(ROUTES))
    names = [KNOWN.get(part[1:-1], ID) if "{" in part else part for part in path.split("/")]
    parts = [
        quote(draw(ANYTHING.words) if "{" in part and draw(st.integers(0, 2)) == 0 else name, safe="")
        for part, name in zip(path.split("/"), names, strict=True)
    ]
    good = st.sampled_from(good_for(path))
    body = draw(good | good.flatmap(ANYTHING.nearly) | ANYTHING.values)
    return service, method, "/".join(parts), draw(st.sampled_from(PEOPLE)), draw(ANYTHING.words), draw(queries), body


def test_anything(tmp_path: Path) -> None:
    @settings(derandomize=True, database=None, max_examples=examples(80), suppress_health_check=list(HealthCheck))
    @given(st.lists(request(), min_size=8, max_size=16))
    def send(sent: list[Any]) -> None:
        asyncio.run(_send(tmp_path, sent))

    send()


async def _send(files_dir: Path, sent: list[Any]) -> None:
    async with opened(files_dir) as services:
        await _seed(services)
        for service, method, path, who, subject, query, body in sent:
            headers: dict[str, str | bytes] = {
                "X-Auth-Token": f"token of {who}",
                "X-Subject-Token": f"token of {subject}".encode(),
                "Content-Type": TYPES.get((service, method), "application/json"),
            }
            content = None if method in ("GET", "DELETE") else json.dumps(body)
            answer = await services.client.request(
                method, service + path, params=query, content=content, headers=headers
            )
            assert answer.status_code < 500, (method, path, who, query, body, answer.text)


async def _seed(services: Opened) -> None:
    requested = {"id": ID, "name": "one", "disk_format": "raw", "container_format": "bare", "visibility": "shared"}
    made = await services.ask("ann", "POST", "/image/v2/images", requested)
    assert made.status_code == 201, made.text
