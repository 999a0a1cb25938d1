"""The JSON schemas from which some clients build their models."""

from typing import Any

from whimbrel.embedded.image.image_fields import CONTAINER_FORMATS, DISK_FORMATS
from whimbrel.embedded.image.request import Call
from whimbrel.http.reply import Reply

TEXT = {"type": ["null", "string"]}
READ_ONLY_TEXT = {**TEXT, "readOnly": True}
NUMBER = {"type": "integer"}
READ_ONLY_NUMBER = {"type": ["null", "integer"], "readOnly": True}
FLAG = {"type": "boolean"}

IMAGE: dict[str, Any] = {
    "name": "image",
    "properties": {
        "id": {"type": "string"},
        "name": {**TEXT, "maxLength": 255},
        "owner": TEXT,
        "status": {"type": "string", "enum": ["queued", "uploading", "active", "deactivated"], "readOnly": True},
        "visibility": {"type": "string", "enum": ["community", "public", "private", "shared"]},
        "protected": FLAG,
        "os_hidden": FLAG,
        "disk_format": {**TEXT, "enum": [None, *DISK_FORMATS]},
        "container_format": {**TEXT, "enum": [None, *CONTAINER_FORMATS]},
        "min_disk": NUMBER,
        "min_ram": NUMBER,
        "size": READ_ONLY_NUMBER,
        "virtual_size": READ_ONLY_NUMBER,
        **dict.fromkeys(("checksum", "os_hash_algo", "os_hash_value"), READ_ONLY_TEXT),
        **dict.fromkeys(("created_at", "updated_at", "self", "file", "schema"), READ_ONLY_TEXT),
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 255}},
    },
    "additionalProperties": {"type": "string"},
    "links": [
        {"rel": "self", "href": "{self}"},
        {"rel": "enclosure", "href": "{file}"},
        {"rel": "describedby", "href": "{schema}"},
    ],
}

MEMBER: dict[str, Any] = {
    "name": "member",
    "properties": {
        "member_id": {"type": "string"},
        "image_id": {"type": "string"},
        "status": {"type": "string", "enum": ["pending", "accepted", "rejected"]},
        "created_at": {"type": "string"},
        "updated_at": {"type": "string"},
        "schema": {"type": "string", "readOnly": True},
    },
}


async def image(call: Call) -> Reply:
    return Reply(IMAGE)


async def images(call: Call) -> Reply:
    return Reply(pages("images", IMAGE))


async def member(call: Call) -> Reply:
    return Reply(MEMBER)


async def members(call: Call) -> Reply:
    return Reply(pages("members", MEMBER))


def pages(name: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a list of such items."""
    return {
        "name": name,
        "properties": {
            name: {"type": "array", "items": item},
            **{link: {"type": "string"} for link in ("first", "next", "schema")},
        },
        "links": [
            {"rel": "first", "href": "{first}"},
            {"rel": "next", "href": "{next}"},
            {"rel": "describedby", "href": "{schema}"},
        ],
    }
