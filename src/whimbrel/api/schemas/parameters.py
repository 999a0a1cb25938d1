"""Pieces that schemas are made of."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "format": "name"}
TEXT: Schema = {"type": "string", "maxLength": 255}
UUID: Schema = {"type": "string", "format": "any-uuid"}
DESCRIPTION: Schema = {"type": ["string", "null"], "maxLength": 255, "pattern": r"^[^\x00-\x08\x0b-\x1f\x7f]*$"}
_TRUE = (True, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes", "y", "t")
_FALSE = (False, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no", "n", "f")
BOOLEAN: Schema = {"enum": [*_TRUE, *_FALSE]}
METADATA: Schema = {
    "type": "object",
    "patternProperties": {"^[a-zA-Z0-9_:. -]{1,255}$": {"type": "string", "maxLength": 255}},
    "additionalProperties": False,
}

# Values of query keys: they are always strings.
ANY: Schema = {"type": "string"}
NUMBER: Schema = {"type": "string", "pattern": "^[0-9]{1,9}$"}
TIME: Schema = {"type": "string", "format": "iso-time"}
PATTERN: Schema = {"type": "string", "maxLength": 1000, "format": "safe-pattern"}
BOOLEAN_WORD: Schema = {"enum": [word for word in (*_TRUE, *_FALSE) if isinstance(word, str)]}


def single(value: Schema) -> Schema:
    """A query key that may be given once."""
    return {"type": "array", "items": value, "maxItems": 1}


def many(value: Schema) -> Schema:
    """A query key that may be given several times."""
    return {"type": "array", "items": value}


def obj(properties: Mapping[str, Schema], required: tuple[str, ...] | list[str] = ()) -> Schema:
    """An object with these keys and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def wrapped(key: str, value: Schema) -> Schema:
    """A body whose only key is `key`."""
    return obj({key: value}, [key])


def truth(value: Any) -> bool:
    """Read a value that BOOLEAN allows."""
    return value in _TRUE


def truth_of_word(text: str) -> bool:
    """Read a word of a query string; what is not a yes is a no."""
    return text.lower() in ("1", "true", "on", "yes", "y", "t")
