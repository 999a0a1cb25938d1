"""Interprets responses of OpenStack services: maps statuses to errors, and decodes bodies."""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from whimbrel.domain.errors import NotFound, Refused, Unavailable, WorldError

OUR_OWN_TROUBLE = (401, 408, 429)  # about this client's token or request rate, not about the requested object

Body = TypeVar("Body")


def decoded(service: str, content: bytes | msgspec.Raw, kind: type[Body]) -> Body:
    """Raises: Unavailable: the body has another form."""
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(f"the {service} service answers what cannot be read: {error}") from error


def inside(service: str, key: str, content: bytes, kind: type[Body]) -> Body:
    """Return the value of the one key of a body that is used. Raises: as `decoded`."""
    wrapper = _wrapper(key, kind)  # type: ignore[arg-type] # mypy takes a type for not hashable
    found: Body = getattr(decoded(service, content, wrapper), key)
    return found


@cache
def _wrapper(key: str, kind: Any) -> type[msgspec.Struct]:
    return msgspec.defstruct("Body", [(key, kind)])


def error_of(
    service: str, status: int, message: str, others: Mapping[int, type[WorldError]] | None = None
) -> WorldError:
    """Return the error for an unsuccessful status. others: statuses with an error of their own."""
    reason = f"the {service} service answers {status}: {message}"
    if status in (404, 410):
        return NotFound(message if message.endswith("could not be found.") else reason)
    if others and status in others:
        return others[status](reason)
    if 400 <= status < 500 and status not in OUR_OWN_TROUBLE:
        return Refused(reason)
    return Unavailable(reason)
