"""The version documents. They need no token."""

from typing import Any

from whimbrel.api.http.microversions import FIRST, LAST
from whimbrel.http.reply import Reply

UPDATED = "2013-07-23T11:33:21Z"
MEDIA_TYPE = {"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}
DESCRIPTION = {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/api-ref/compute/"}


def at(parts: list[str], method: str, root_url: str) -> Reply | None:
    """Return the version document at this path, or None.

    / lists the versions, /v2.1 describes one, and a path without a version is answered with the choices.
    """
    if parts[0] != "v2.1":
        if parts == [""]:
            return Reply(status=200, body={"versions": [_version(root_url)]})
        return Reply(status=300, body={"choices": [_choice(root_url, "/".join(parts))]})
    if len(parts) == 1 and method in ("GET", "HEAD"):
        return Reply(status=200, body={"version": _version(root_url) | _details(root_url)})
    return None


def _version(root_url: str) -> dict[str, Any]:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": f"2.{LAST}",
        "min_version": f"2.{FIRST}",
        "updated": UPDATED,
        "links": [{"rel": "self", "href": f"{root_url}/v2.1/"}],
    }


def _details(root_url: str) -> dict[str, Any]:
    return {"links": [{"rel": "self", "href": f"{root_url}/v2.1/"}, DESCRIPTION], "media-types": [MEDIA_TYPE]}


def _choice(root_url: str, path: str) -> dict[str, Any]:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "links": [{"rel": "self", "href": f"{root_url}/v2.1/{path}"}],
        "media-types": [MEDIA_TYPE],
    }
