"""Request bodies: `{"port": {...}}`, or `{"ports": [...]}` to create several at once.

Invariant: an attribute that is unknown, or that the requester may not set, is an error and never ignored.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from whimbrel.domain.ip_addresses import canonical
from whimbrel.embedded.network.policy import ADMINS_ONLY
from whimbrel.embedded.network.request import Call, forbidden
from whimbrel.http.problem import Problem
from whimbrel.ports.services.network_errors import InvalidInput

MOST_AT_ONCE = 1000

Text = Annotated[str, Meta(max_length=255)]
Uuid = Annotated[str, Meta(min_length=1, max_length=36)]
Tag = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^,/]+$")]

UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
MISSING = re.compile(r"Object missing required field `(.*)`")


class Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The attributes of a resource in a request."""


class New(Body, kw_only=True):
    """The attributes of a new resource. project_id: its owner."""

    name: Text = ""
    description: Text = ""
    project_id: Text | None = None
    tenant_id: Text | None = None  # its deprecated name
    tags: Annotated[tuple[Tag, ...], Meta(max_length=50)] = ()


class Changed(Body, kw_only=True):
    """The changed attributes of a resource."""

    name: Text | UnsetType = UNSET
    description: Text | UnsetType = UNSET


B = TypeVar("B", bound=Body)


async def one(call: Call, resource: str, kind: type[B]) -> B:
    """Parse the body for one resource. Raises: Problem."""
    return _checked(call, resource, kind, _inside(await call.body(dict[str, Any]), resource))


async def several(call: Call, resource: str, plural: str, kind: type[B]) -> tuple[list[B], bool]:
    """Parse the body for new resources, and return whether it is a list. Raises: Problem."""
    body = await call.body(dict[str, Any])
    if plural not in body:
        return [_checked(call, resource, kind, _inside(body, resource))], False
    items = body[plural]
    if not isinstance(items, list) or not 0 < len(items) <= MOST_AT_ONCE:
        raise Problem(400, f"{plural} is a list of 1 to {MOST_AT_ONCE}.")
    # Some clients wrap each item of a list.
    return [_checked(call, resource, kind, _unwrapped(item, resource)) for item in items], True


def _unwrapped(item: Any, resource: str) -> Any:
    return item[resource] if isinstance(item, dict) and list(item) == [resource] else item


def _inside(body: Mapping[str, Any], resource: str) -> Any:
    if resource not in body:
        raise Problem(400, f"Unable to find '{resource}' in request body")
    return body[resource]


def _checked(call: Call, resource: str, kind: type[B], value: Any) -> B:
    if not isinstance(value, dict):
        raise Problem(400, f"'{resource}' is an object.")
    body = converted(value, kind)
    if not call.is_admin:
        for name in ADMINS_ONLY.get(resource, ()):
            if name in value and _says_more_than_nothing(body, name):
                raise forbidden(f"rule:set_{resource}:{name}")
    return body


def converted(value: Any, kind: type[B]) -> B:
    """Convert the body to a struct. Numbers and flags may be text. Raises: Problem."""
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(400, _sentence(str(error))) from error
    except RecursionError as error:
        raise Problem(400, "The body is nested too deeply.") from error


def _sentence(error: str) -> str:
    what, _, path = error.partition(" - at `$")
    if found := UNKNOWN.match(what):
        return f"Unrecognized attribute(s) '{found[1]}'"
    if found := MISSING.match(what):
        return f"Failed to parse request. Required attribute '{found[1]}' not specified"
    return f"Invalid input for {path.strip('.`') or 'the body'}. Reason: {what}."


def _says_more_than_nothing(body: Body, name: str) -> bool:
    """Check whether an attribute differs from its default."""
    field = next(each for each in msgspec.structs.fields(body) if each.encode_name == name)
    return bool(getattr(body, field.name) != field.default)


def new_fields(call: Call, body: New, project_id: str | None = None) -> dict[str, Any]:
    """Return the common fields of new records. project_id: the owner if the body has none."""
    now = call.context.clock.now()
    return {
        "id": call.context.ids.uuid(),
        "created_at": now,
        "updated_at": now,
        "project_id": call.project(body.project_id or body.tenant_id or project_id),
        "tags": tuple(sorted(set(body.tags))),
    }


def given(body: Body, *names: str) -> dict[str, Any]:
    """Return those of these fields that the body contains. No names: all fields."""
    return {name: value for name in names or body.__struct_fields__ if (value := getattr(body, name)) is not UNSET}


def address(value: str, what: str) -> str:
    """Parse an IP address. Raises: InvalidInput."""
    try:
        return canonical(value)
    except ValueError as error:
        raise InvalidInput(f"Invalid input for {what}. Reason: '{value}' is not a valid IP address.") from error
