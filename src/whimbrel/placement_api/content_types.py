"""Content types of answers: JSON, or an error as text for clients that do not accept JSON.

Source: RFC 9110, Accept. As in Placement a malformed header is ignored.
"""

import re

JSON, HTML, PLAIN = "application/json", "text/html", "text/plain"

_RANGE = re.compile(r"\s*([\w!#$%&'*+.^`|~-]+/[\w!#$%&'*+.^`|~-]+)\s*((?:;[^,]*)?)")


def quality(accept: str | None, kind: str) -> float:
    """Return a client's preference for a type: 1 to 0; 0: not accepted."""
    ranges = [_RANGE.fullmatch(part) for part in (accept or "").split(",") if part.strip()]
    if not ranges or not all(ranges):
        return 1.0
    said = {match[1].lower(): _weight(match[2]) for match in ranges if match}
    found = (said[wanted] for wanted in (kind, f"{kind.split('/')[0]}/*", "*/*") if wanted in said)
    return next(found, 0.0)  # the most specific range takes precedence


def _weight(parameters: str) -> float:
    weight = 1.0
    for part in parameters.split(";")[1:]:
        name, _, value = part.strip().partition("=")
        if name.lower() != "q":
            return 0.0  # a type with parameters, which ours does not have
        weight = float(value) if re.fullmatch(r"[01](\.\d*)?", value) else weight
    return weight


def of_error(accept: str | None) -> str:
    """Return the content type of an error."""
    json, html = quality(accept, JSON), quality(accept, HTML)
    if json and json >= html:
        return JSON
    return HTML if html else PLAIN
