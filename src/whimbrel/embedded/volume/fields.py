"""Types of the fields of requests, and bodies with their one outer key.

Invariant: from 3.53 on unknown fields are refused, below they are ignored, as in Cinder.
"""

import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from whimbrel.domain.errors import Invalid
from whimbrel.embedded.volume.request import Call
from whimbrel.http.problem import Problem

Name = Annotated[str, Meta(max_length=255)]
Key = Annotated[str, Meta(min_length=1, max_length=255)]
Metadata = dict[Key, Annotated[str, Meta(max_length=255)]]
Uuid = Annotated[str, Meta(pattern="^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$")]
MOST_GIB = 2**31 - 1
STRICT_SINCE = 53

Body = TypeVar("Body")


class Named(msgspec.Struct, kw_only=True):
    """The names of a volume or a snapshot in a body, in both of their forms."""

    name: Name | msgspec.UnsetType | None = msgspec.UNSET
    display_name: Name | msgspec.UnsetType | None = msgspec.UNSET
    description: Name | msgspec.UnsetType | None = msgspec.UNSET
    display_description: Name | msgspec.UnsetType | None = msgspec.UNSET

    def for_new(self) -> dict[str, Any]:
        """Return the fields `name` and `description` of a new record; null counts as not sent."""
        sent = ((self.name, self.display_name), (self.description, self.display_description))
        name, description = (next((text.strip() for text in texts if isinstance(text, str)), None) for texts in sent)
        return {"name": name, "description": description}

    def changes(self) -> dict[str, Any]:
        """Return those of the fields `name` and `description` that are changed."""
        sent = (
            *(("name", text) for text in (self.display_name, self.name)),
            *(("description", text) for text in (self.display_description, self.description)),
        )
        return {field: text and text.strip() for field, text in sent if text is not msgspec.UNSET}


async def wrapped(call: Call, key: str, kind: type[Body], beside: tuple[str, ...] = ()) -> Body:
    """Parse `{key: {...}}`. beside: other permitted outer keys. Raises: Problem: malformed."""
    outer = await call.body(dict[str, msgspec.Raw])
    if key not in outer:
        raise Problem(400, f"Invalid input: '{key}' is a required property.")
    if unknown := sorted(set(outer) - {key, *beside}) if call.minor >= STRICT_SINCE else []:
        raise Problem(400, f"Additional properties are not allowed: {', '.join(unknown)}.")
    return fitted(call, key, outer[key], kind)


def fitted(call: Call, key: str, raw: msgspec.Raw, kind: type[Body]) -> Body:
    """Decode a part of a body as this type. Raises: Problem: malformed."""
    try:
        made = msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"Invalid input for {key}: {error}") from error
    if call.minor >= STRICT_SINCE and isinstance(made, msgspec.Struct):
        known = {each.encode_name for each in msgspec.structs.fields(made)}
        if unknown := sorted(set(msgspec.json.decode(raw, type=dict[str, Any])) - known):
            raise Problem(400, f"Additional properties are not allowed: {', '.join(unknown)}.")
    return made


def not_served(**fields: object) -> None:
    """Raises: Problem: one of these fields requests an unsupported feature."""
    for name, value in fields.items():
        if value is not None:
            raise Problem(400, f"Invalid input for {name}: there is no such thing in this cloud.")


def flag(value: Any, name: str) -> bool:
    """Parse true or false in any of its forms. Raises: Problem."""
    text = str(value).strip().lower()
    if text in ("1", "true", "yes", "on", "t", "y"):
        return True
    if text in ("0", "false", "no", "off", "f", "n"):
        return False
    raise Problem(400, f"Invalid value for {name}: '{value}' is neither true nor false.")


def gib(value: int | str, name: str) -> int:
    """Return a size, a number or its digits. Raises: Invalid: with the sentences of Cinder, which clients show."""
    text = str(value)
    number = int(text) if re.fullmatch("-?[0-9]{1,19}", text) and not isinstance(value, bool) else None
    if number is not None and 1 <= number <= MOST_GIB:
        return number
    if number is None:
        reason = "It is no whole number of GiB"
    elif number < 1:
        reason = f"{number} is less than the minimum of 1"
    else:
        reason = f"{number} is greater than the maximum of {MOST_GIB}"
    raise Invalid(f"Invalid input for field/attribute {name}. Value: {text[:50]}. {reason}.")
