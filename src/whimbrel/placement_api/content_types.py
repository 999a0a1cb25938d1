"""Kinds of answers: JSON, or for who takes none of it an error as text.

Source: RFC 9110, Accept. As in Placement a header that cannot be read says nothing.
"""

import re

JSON, HTML, PLAIN = "application/json", "text/html", "text/plain"

_RANGE = re.compile(r"\s*([\w!#$%&'*+.^`|~-]+/[\w!#$%&'*+.^`|~-]+)\s*((?:;[^,]*)?)")


def quality(accept: str | None, kind: str) -> float:
    """Tell how gladly a client takes a kind: from 1 to 0, which is not at all."""
    ranges = [_RANGE.fullmatch(part) for part in (accept or "").split(",") if part.strip()]
    if not ranges or not all(ranges):
        return 1.0
    said = {match[1].lower(): _weight(match[2]) for match in ranges if match}
    found = (said[wanted] for wanted in (kind, f"{kind.split('/')[0]}/*", "*/*") if wanted in said)
    return next(found, 0.0)  # what is said more exactly counts


def _weight(parameters: str) -> float:
    weight = 1.0
    for part in parameters.split(";")[1:]:
        name, _, value = part.strip().partition("=")
        if name.lower() != "q":
            return 0.0  # a kind of its own, which ours is not
        weight = float(value) if re.fullmatch(r"[01](\.\d*)?", value) else weight
    return weight


def of_error(accept: str | None) -> str:
    """Choose what an error is told as."""
    json, html = quality(accept, JSON), quality(accept, HTML)
    if json and json >= html:
        return JSON
    return HTML if html else PLAIN
