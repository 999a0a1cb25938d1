"""Interprets responses of OpenStack services: maps statuses to errors, and decodes bodies."""

from collections.abc import Mapping
from typing import TypeVar

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
