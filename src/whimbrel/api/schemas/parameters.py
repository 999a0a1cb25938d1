"""Parts of schemas."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "format": "name"}
TEXT: Schema = {"type": "string", "maxLength": 255}
UUID: Schema = {"type": "string", "format": "any-uuid"}
LARGEST = 2**31 - 1
DESCRIPTION: Schema = {"type": ["string", "null"], "maxLength": 255, "format": "printable"}
_TRUE = (True, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes")
_FALSE = (False, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no")
BOOLEAN: Schema = {"enum": [*_TRUE, *_FALSE]}
METADATA: Schema = {
    "type": "object",
    "patternProperties": {"^[a-zA-Z0-9_:. -]{1,255}$": {"type": "string", "maxLength": 255}},
    "additionalProperties": False,
}

# Values of query keys, which are always strings.
ANY: Schema = {"type": "string"}
NUMBER: Schema = {"type": "string", "pattern": "^[0-9]+$", "maxLength": 1000}
TIME: Schema = {"type": "string", "format": "iso-time"}
PATTERN: Schema = {"type": "string", "maxLength": 1000, "format": "safe-pattern"}
BOOLEAN_WORD: Schema = {"enum": [word for word in (*_TRUE, *_FALSE) if isinstance(word, str)]}


def whole(least: int, most: int = LARGEST) -> Schema:
    """Return the schema of a whole number, which may be sent as its digits. least: -1, 0 or 1."""
    digits = {-1: "^(-1|[0-9]+)$", 0: "^[0-9]+$", 1: "^0*[1-9][0-9]*$"}[least]
    size = "int32" if most == LARGEST else "int64"
    return {"type": ["integer", "string"], "pattern": digits, "format": size, "minimum": least, "maximum": most}


def single(value: Schema) -> Schema:
    """Return the schema of a query key that may be given once."""
    return {"type": "array", "items": value, "maxItems": 1}


def many(value: Schema) -> Schema:
    """Return the schema of a query key that may be given several times."""
    return {"type": "array", "items": value}


def obj(properties: Mapping[str, Schema], required: tuple[str, ...] | list[str] = ()) -> Schema:
    """Return the schema of an object with these keys and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def wrapped(key: str, value: Schema) -> Schema:
    """Return the schema of a body with the only key `key`."""
    return obj({key: value}, [key])


def truth(value: Any) -> bool:
    """Return the truth of a value that BOOLEAN permits."""
    return value in _TRUE


def truth_of_word(text: str) -> bool:
    """Return the truth of a word of a query string; unknown words are false."""
    return text.lower() in ("1", "true", "on", "yes", "y", "t")
