"""The version documents. They need no token."""

from collections.abc import Sequence
from typing import Any

from whimbrel.api.http.microversions import FIRST, LAST
from whimbrel.http.reply import Reply

DESCRIPTION = {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/api-ref/compute/"}

# id -> path below the root, and what the documents say about it. v2.0 is 2.1 without microversions.
VERSIONS: dict[str, tuple[str, dict[str, str], str]] = {
    "v2.0": (
        "v2",
        {"status": "DEPRECATED", "version": "", "min_version": "", "updated": "2025-07-04T12:00:00Z"},
        "application/vnd.openstack.compute+json;version=2",
    ),
    "v2.1": (
        "v2.1",
        {
            "status": "CURRENT",
            "version": f"2.{LAST}",
            "min_version": f"2.{FIRST}",
            "updated": "2013-07-23T11:33:21Z",
        },
        "application/vnd.openstack.compute+json;version=2.1",
    ),
}


def at(parts: Sequence[str], method: str, root_url: str) -> Reply | None:
    """Return the version document at this path, or None.

    / lists the versions, /v2.1 describes one, and a path without a version is answered with the choices.
    """
    match parts:
        case [""]:
            return Reply(status=200, body={"versions": [_version(id, root_url) for id in VERSIONS]})
        case ["v2.1" | "v2" as path] if method in ("GET", "HEAD"):
            return Reply(status=200, body={"version": _full("v2.0" if path == "v2" else path, root_url)})
        case ["v2.1" | "v2", "versions", id] if id in VERSIONS and method in ("GET", "HEAD"):
            return Reply(status=200, body={"version": _full(id, root_url)})
        case ["v2.1" | "v2", *_]:
            return None
    return Reply(status=300, body={"choices": [_choice(id, root_url, "/".join(parts)) for id in VERSIONS]})


def _version(id: str, root_url: str) -> dict[str, Any]:
    path, said, _ = VERSIONS[id]
    return {"id": id, **said, "links": [{"rel": "self", "href": f"{root_url}/{path}/"}]}


def _full(id: str, root_url: str) -> dict[str, Any]:
    version = _version(id, root_url)
    return version | {"links": [*version["links"], DESCRIPTION], "media-types": [_media_type(id)]}


def _choice(id: str, root_url: str, rest: str) -> dict[str, Any]:
    path, said, _ = VERSIONS[id]
    return {
        "id": id,
        "status": said["status"],
        "links": [{"rel": "self", "href": f"{root_url}/{path}/{rest}"}],
        "media-types": [_media_type(id)],
    }


def _media_type(id: str) -> dict[str, str]:
    return {"base": "application/json", "type": VERSIONS[id][2]}
