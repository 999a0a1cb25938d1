"""Windows of time: "22:00-04:00", "mon-fri 22:00-04:00", "sat,sun 00:00-24:00".

A time is in a window if the clock on a wall in the time zone says so. So a window needs no rule of its own for the days
on which clocks change: a minute that is skipped is in none, one that is repeated is in it twice.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

import msgspec

from whimbrel.domain.errors import Invalid

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MIN = 24 * 60
LOOKED_AHEAD_S = 9 * 86_400.0
"""A window of one weekday opens within this time, also if the clocks skip it once."""
_TEXT = re.compile(r"(?:(?P<days>[a-z,-]+) +)?(?P<start>\d\d:\d\d)-(?P<end>\d\d:\d\d)", re.ASCII)


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A window that begins on some days of the week. start_min, end_min: of the day, 0 to 1440; the end is excluded.

    If the end is before the start, it is on the next day.
    """

    days: frozenset[int]  # 0: Monday
    start_min: int
    end_min: int

    def has(self, weekday: int, minute: int) -> bool:
        """Check whether a minute of a day is in the window."""
        if self.start_min < self.end_min:
            return weekday in self.days and self.start_min <= minute < self.end_min
        before = (weekday - 1) % 7
        return (weekday in self.days and minute >= self.start_min) or (before in self.days and minute < self.end_min)


class Windows(msgspec.Struct, frozen=True, kw_only=True):
    """Several windows in one time zone, as they were written. None: always open."""

    texts: tuple[str, ...] = ()
    time_zone: str = "UTC"

    def check(self) -> None:
        """Raises: Invalid: a window or the time zone."""
        _zone(self.time_zone)
        for text in self.texts:
            window_of(text)

    @property
    def is_known_here(self) -> bool:
        """Check whether this machine has the time zone."""
        try:
            _zone(self.time_zone)
        except Invalid:
            return False
        return True

    def is_open(self, at: float) -> bool:
        """at: seconds since 1970. Raises: Invalid: this machine does not know the time zone."""
        if not self.texts:
            return True
        wall = datetime.fromtimestamp(at, _zone(self.time_zone))
        minute = wall.hour * 60 + wall.minute
        return any(window_of(text).has(wall.weekday(), minute) for text in self.texts)

    def changes_at(self, at: float) -> float | None:
        """Return when the windows open, or close, next; None: never. Raises: as `is_open`."""
        now = self.is_open(at)
        return next((minute for minute in _minutes_after(at) if self.is_open(minute) != now), None)

    def after_open(self, at: float, open_s: float) -> float | None:
        """Return when they have been open for so long, counted from `at`. None: not within some days.

        Raises: as `is_open`.
        """
        before = at
        for minute in _minutes_after(at):
            if self.is_open(before):
                if open_s <= minute - before:
                    return before + open_s
                open_s -= minute - before
            before = minute
        return None

    def words(self) -> str:
        return f"{', '.join(self.texts)} {self.time_zone}"


@cache
def window_of(text: str) -> Window:
    """Raises: Invalid."""
    found = _TEXT.fullmatch(text.strip().lower())
    if not found:
        raise Invalid(f"'{text}' is no window: write it as 22:00-04:00, or mon-fri 22:00-04:00.")
    start, end = _minute(found["start"]), _minute(found["end"])
    if start is None or end is None or start in (DAY_MIN, end):
        raise Invalid(f"'{text}' is no window: it begins at 00:00 to 23:59, and ends at another time up to 24:00.")
    return Window(days=_days(found["days"], text), start_min=start, end_min=end)


def _minute(text: str) -> int | None:
    hours, minutes = int(text[:2]), int(text[3:])
    return hours * 60 + minutes if minutes < 60 and hours * 60 + minutes <= DAY_MIN else None


def _days(text: str | None, window: str) -> frozenset[int]:
    if text is None:
        return frozenset(range(7))
    days = set[int]()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS or part.endswith("-"):
            raise Invalid(f"'{window}' is no window: days are {', '.join(DAYS)}, as in mon-fri or sat,sun.")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        days |= {number % 7 for number in range(begin, end + 1 if begin <= end else end + 8)}
    return frozenset(days)


@cache
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # also on a machine without time zone data
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # an unknown name; one that is a path out of the data, or to a directory
        raise Invalid(f"Time zone '{name}' is not known here: write it as Europe/Berlin, or UTC.") from None


def _minutes_after(at: float) -> Iterator[float]:
    """Yield the whole minutes after a time: windows change at no other."""
    minute = at - at % 60 + 60
    while minute <= at + LOOKED_AHEAD_S:
        yield minute
        minute += 60
