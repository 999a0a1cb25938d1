"""The version documents."""

from typing import Any

from whimbrel.embedded.identity.request import Call
from whimbrel.http.reply import Reply


async def list_all(call: Call) -> Reply:
    return Reply({"versions": {"values": [_v3(call.root_url)]}}, 300, {"Location": f"{call.root_url}/v3/"})


async def show_v3(call: Call) -> Reply:
    return Reply({"version": _v3(call.root_url)})


def _v3(url: str) -> dict[str, Any]:
    return {
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": f"{url}/v3/"}],
        "media-types": [
            {"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"},
        ],
    }
