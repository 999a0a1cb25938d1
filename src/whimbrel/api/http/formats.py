"""Formats of strings that JSON schemas refer to by name. Each checks whether a text has that format."""

from base64 import b64decode
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from unicodedata import category

import jsonschema_rs

from whimbrel.http.schema import is_uuid


def _is_printable(text: str) -> bool:
    """Check for characters that Nova calls printable: no controls, no line ends, none beyond the first 65,535."""
    if text.isascii():
        return text.isprintable()
    return all(each < "\uffff" and (each.isprintable() or category(each) == "Zs") for each in text)


def _is_name(text: str) -> bool:
    """Check for printable characters, not empty, without surrounding blanks."""
    return bool(text) and text == text.strip() and _is_printable(text)


def _is_wider_name(text: str) -> bool:
    """Check for printable characters, of which one is not blank."""
    return bool(text.strip()) and _is_printable(text)


def _is_time(text: str) -> bool:
    if "W" in text:  # the date of a week, which Nova does not read
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_base_64(text: str) -> bool:
    """Check for what Nova decodes: characters outside of the alphabet are skipped."""
    try:
        b64decode(text)
    except ValueError:
        return False
    return True


def _is_pattern(text: str) -> bool:
    """Check for a regular expression that can be searched in linear time; not an empty one, which would find all."""
    if not text:
        return False
    try:
        matcher(text)
    except ValueError:
        return False
    return True


def _is_at_most(most: int) -> Callable[[str], bool]:
    """Return a check for the digits of a number of this size."""
    longest = len(str(most))

    def check(text: str) -> bool:
        digits = text.lstrip("0")
        return len(digits) < longest or (len(digits) == longest and digits <= str(most))

    return check


@lru_cache(maxsize=256)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a search for a user's regular expression. Raises: ValueError: invalid expression.

    Python's own `re` takes exponential time for some short patterns.
    """
    schema = jsonschema_rs.Draft202012Validator(
        {"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions(size_limit=1 << 20)
    )
    return schema.is_valid


FORMATS: dict[str, Callable[[str], bool]] = {
    "name": _is_name,
    "wider-name": _is_wider_name,
    "printable": _is_printable,
    "any-uuid": is_uuid,
    "iso-time": _is_time,
    "int32": _is_at_most(2**31 - 1),
    "int64": _is_at_most(2**63 - 1),
    "base-64": _is_base_64,
    "safe-pattern": _is_pattern,
}

EXPLAINED: dict[str, str] = {
    "name": "it must be printable, not empty, and without blanks around it",
    "wider-name": "it must be printable, and not blank",
    "printable": "it must be printable, on one line",
    "any-uuid": "it must be a uuid",
    "int32": f"it must be a whole number of at most {2**31 - 1}",
    "int64": f"it must be a whole number of at most {2**63 - 1}",
    "iso-time": "it must be a time as ISO 8601 writes it",
    "base-64": "it must be base64",
    "safe-pattern": "it must be a regular expression, without look-around and back references",
}
