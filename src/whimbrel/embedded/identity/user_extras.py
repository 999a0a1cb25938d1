"""Attributes of users without a meaning here: kept and shown as they were sent, as in Keystone."""

from typing import Any, TypeVar

import msgspec

from whimbrel.embedded.identity.bodies import ChangedUserBody, NewUserBody
from whimbrel.embedded.identity.request import Ask
from whimbrel.http.problem import Problem
from whimbrel.ports.services.identity import User

UserBody = TypeVar("UserBody", NewUserBody, ChangedUserBody)

KNOWN = {*User.__struct_fields__, "password", "original_password", "password_expires_at", "options", "links"}
"""Attributes that are stored otherwise, or not at all."""


async def read(ask: Ask, kind: type[UserBody]) -> tuple[UserBody, dict[str, Any]]:
    """Return the body, and the other attributes in it. Raises: Problem."""
    sent = await ask.body(dict[str, Any])
    try:
        body = msgspec.convert(sent, kind)
    except msgspec.ValidationError as error:
        raise Problem(400, f"The body is not what is expected here: {error}") from error
    return body, {name: value for name, value in sent["user"].items() if name not in KNOWN}
