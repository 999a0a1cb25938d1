"""The JSON schemas of metadata definitions, from which some clients build their models."""

from typing import Any

from whimbrel.embedded.image.request import Call, Handler
from whimbrel.embedded.image.schemas import FLAG, READ_ONLY_TEXT, TEXT, pages
from whimbrel.http.reply import Reply

Schema = dict[str, Any]

NAME = {"type": "string", "maxLength": 80}
LONG_NAME = {"type": "string", "maxLength": 255}
WHOLE = {"type": "integer"}
DATED = dict.fromkeys(("created_at", "updated_at"), READ_ONLY_TEXT)
LINKED = dict.fromkeys(("self", "schema"), READ_ONLY_TEXT)

PROPERTY: Schema = {
    "title": {"type": "string"},
    "description": {"type": "string"},
    "type": {"type": "string", "enum": ["array", "boolean", "integer", "number", "object", "string"]},
    "operators": {"type": "array", "items": {"type": "string"}},
    "enum": {"type": "array"},
    "items": {"type": "object"},
    "default": {},
    "pattern": {"type": "string"},
    "readonly": FLAG,
    "uniqueItems": FLAG,
    "additionalItems": FLAG,
    "minimum": {"type": "number"},
    "maximum": {"type": "number"},
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), WHOLE),
}
"""The fields of a property without its name."""

PROPERTIES: Schema = {
    "type": "object",
    "additionalProperties": {"type": "object", "required": ["title", "type"], "properties": PROPERTY},
}
OBJECT: Schema = {
    "name": LONG_NAME,
    "description": {"type": "string"},
    "required": {"type": "array", "items": {"type": "string"}},
    "properties": PROPERTIES,
    **DATED,
    **LINKED,
}
TAG: Schema = {"name": NAME, **DATED}
ASSOCIATION: Schema = {
    "name": NAME,
    "prefix": NAME,
    "properties_target": NAME,
    **DATED,
}
NAMESPACE: Schema = {
    "namespace": NAME,
    "display_name": {**TEXT, "maxLength": 80},
    "description": {**TEXT, "maxLength": 500},
    "visibility": {"type": "string", "enum": ["public", "private"]},
    "protected": FLAG,
    "owner": {**TEXT, "maxLength": 255},
    "objects": {"type": "array", "items": {"type": "object", "properties": OBJECT}},
    "properties": PROPERTIES,
    "resource_type_associations": {"type": "array", "items": {"type": "object", "properties": ASSOCIATION}},
    "tags": {"type": "array", "items": {"type": "object", "properties": TAG}},
    **DATED,
    **LINKED,
}

KINDS = (
    ("namespace", "namespaces", "namespace", "namespaces", NAMESPACE, "namespace"),
    ("object", "objects", "object", "objects", OBJECT, "name"),
    ("property", "properties", "property", "properties", {"name": LONG_NAME, **PROPERTY}, "name"),
    ("tag", "tags", "tag", "tags", TAG, "name"),
    (
        *("resource_type", "resource_types", "resource_type_association", "resource_type_associations"),
        *(ASSOCIATION, "name"),
    ),
)
"""In the URL, that of the list; name, that of the list; fields; the required field."""


def _answering(schema: Schema) -> Handler:
    async def show(call: Call) -> Reply:
        return Reply(schema)

    return show


def _routes() -> list[tuple[str, str, Handler]]:
    lines: list[tuple[str, str, Handler]] = []
    for word, words, name, names, fields, required in KINDS:
        one: Schema = {"name": name, "properties": fields, "required": [required], "additionalProperties": False}
        listed = pages(names, one)
        if word == "property":  # a list of properties is an object of them by name
            listed = {**listed, "properties": {**listed["properties"], names: PROPERTIES}}
        lines.append(("GET", f"/v2/schemas/metadefs/{word}", _answering(one)))
        lines.append(("GET", f"/v2/schemas/metadefs/{words}", _answering(listed)))
    return lines


ROUTES = tuple(_routes())
