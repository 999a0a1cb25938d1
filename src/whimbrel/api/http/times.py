"""Times: seconds since 1970 inside, ISO 8601 in UTC in the API."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from whimbrel.domain.errors import Invalid

EPOCH = datetime(1970, 1, 1)
LATEST = 253402300799.0
"""The end of the year 9999; later times are shown as this."""
_DAY_S = 86_400
_MICROSECOND = 1_000_000
_MINUTES = tuple(f"{minute // 60:02}:{minute % 60:02}:" for minute in range(_DAY_S // 60))
_TWO_DIGITS = tuple(f"{number:02}" for number in range(60))


def with_zone(seconds: float) -> str:
    """Format a time as servers show it: 2024-01-31T10:00:00Z."""
    return _to_the_second(_microseconds(seconds) // _MICROSECOND) + "Z"


def with_fraction(seconds: float | None) -> str | None:
    """Format a time as records show it: 2024-01-31T10:00:00.123456, without a zone."""
    if seconds is None:
        return None
    whole, fraction = divmod(_microseconds(seconds), _MICROSECOND)
    return f"{_to_the_second(whole)}.{fraction:06}"


def _microseconds(seconds: float) -> int:
    whole, fraction = divmod(seconds if seconds < LATEST else LATEST, 1)
    return int(whole) * _MICROSECOND + round(fraction * _MICROSECOND)


def _to_the_second(seconds: int) -> str:
    """Format whole seconds since 1970, for long lists in a fraction of the time that datetime takes."""
    day, second = divmod(seconds, _DAY_S)
    minute, second = divmod(second, 60)
    return _date(day) + _MINUTES[minute] + _TWO_DIGITS[second]


@lru_cache(maxsize=4096)
def _date(day: int) -> str:
    return f"{(EPOCH + timedelta(days=day)).date().isoformat()}T"


def read(text: str | None) -> float | None:
    """Parse a time that a schema has checked; without a zone it is UTC. Raises: Invalid: out of range."""
    if text is None:
        return None
    when = datetime.fromisoformat(text)
    try:
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, ValueError):
        raise Invalid(f"The time {text} is too far away.") from None


def span(since: str | None, before: str | None) -> tuple[float | None, float | None]:
    """Parse changes-since and changes-before. Raises: Invalid: the end is before the beginning.

    Servers show their times in whole seconds: an end in whole seconds is the end of that second, so that what shows
    this time is within the span, as with Nova, which records whole seconds.
    """
    start, end = read(since), read(before)
    if start is not None and end is not None and end < start:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
    return start, end + 0.999999 if end is not None and end.is_integer() else end
