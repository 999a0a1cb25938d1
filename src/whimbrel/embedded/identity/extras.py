"""Attributes of users and projects without a meaning here: kept and shown as they were sent, as in Keystone."""

from typing import Any, TypeVar

import msgspec

from whimbrel.embedded.identity.request import Call, wrapper
from whimbrel.http.problem import Problem
from whimbrel.ports.services.identity import Project, User

Body = TypeVar("Body")

KNOWN = {
    "user": {*User.__struct_fields__, "password", "original_password", "password_expires_at", "options", "links"},
    "project": {*Project.__struct_fields__, "parent_id", "is_domain", "parents", "subtree", "options", "links"},
}
"""Attributes that are stored otherwise, or not at all."""


async def read(call: Call, resource: str, kind: type[Body]) -> tuple[Body, dict[str, Any]]:
    """Return the resource in the body, and its other attributes. Raises: Problem."""
    sent = await call.body(dict[str, Any])
    try:
        body = msgspec.convert(sent, wrapper(resource, kind))  # type: ignore[arg-type] # as in `Call.inside`
    except msgspec.ValidationError as error:
        raise Problem(400, f"The body is not what is expected here: {error}") from error
    return getattr(body, resource), {
        name: value for name, value in sent[resource].items() if name not in KNOWN[resource]
    }
