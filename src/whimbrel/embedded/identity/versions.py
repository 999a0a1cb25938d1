"""The version documents."""

from typing import Any

from whimbrel.embedded.identity.request import Ask
from whimbrel.http.reply import Reply


async def list_all(ask: Ask) -> Reply:
    return Reply({"versions": {"values": [_v3(ask.root_url)]}}, 300, {"Location": f"{ask.root_url}/v3/"})


async def show_v3(ask: Ask) -> Reply:
    return Reply({"version": _v3(ask.root_url)})


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
