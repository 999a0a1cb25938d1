"""Windows of time: over midnight, on weekdays, and when the clocks change."""

from datetime import UTC, datetime

import pytest

from whimbrel.domain.errors import Invalid
from whimbrel.domain.time_windows import Windows

MINUTE_S = 60.0


def at(text: str) -> float:
    """text: a time in UTC. 2026-11-23 is a Monday."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("window", "moment", "is_open"),
    [
        ("22:00-04:00", "2026-11-23 21:59:59", False),
        ("22:00-04:00", "2026-11-23 22:00", True),
        ("22:00-04:00", "2026-11-24 03:59:59", True),
        ("22:00-04:00", "2026-11-24 04:00", False),
        ("09:00-17:30", "2026-11-23 17:29", True),
        ("09:00-17:30", "2026-11-23 17:30", False),
        ("sun 22:00-04:00", "2026-11-23 03:00", True),  # it began on Sunday
        ("mon 22:00-04:00", "2026-11-23 03:00", False),
        ("mon-fri 22:00-04:00", "2026-11-28 03:00", True),
        ("mon-fri 22:00-04:00", "2026-11-28 23:00", False),
        ("fri-mon 08:00-09:00", "2026-11-29 08:30", True),
        ("fri-mon 08:00-09:00", "2026-11-24 08:30", False),
        ("Sat,Sun 00:00-24:00", "2026-11-29 23:59", True),
        ("sat,sun 00:00-24:00", "2026-11-30 00:00", False),
    ],
)
def test_a_window_is_open_from_its_start_until_its_end(window: str, moment: str, is_open: bool) -> None:
    assert Windows(texts=(window,)).is_open(at(moment)) is is_open


def test_without_windows_they_are_open_always() -> None:
    assert Windows().is_open(0.0)
    assert Windows().changes_at(0.0) is None
    assert Windows().after_open(10.0, 5.0) == 15.0


def test_of_several_windows_one_is_enough() -> None:
    windows = Windows(texts=("01:00-02:00", "02:00-03:00"))
    assert windows.is_open(at("2026-11-23 02:30"))
    assert windows.changes_at(at("2026-11-23 01:30")) == at("2026-11-23 03:00")
    assert windows.changes_at(at("2026-11-23 03:30")) == at("2026-11-24 01:00")


@pytest.mark.parametrize(
    ("now", "opens", "closes"),
    [
        ("2026-03-28 12:00", "2026-03-28 21:00", "2026-03-29 02:00"),  # the clocks skip an hour: 5 hours
        ("2026-10-24 12:00", "2026-10-24 20:00", "2026-10-25 03:00"),  # they repeat one: 7 hours
        ("2026-11-23 12:00", "2026-11-23 21:00", "2026-11-24 03:00"),
    ],
)
def test_a_window_follows_the_clock_on_the_wall(now: str, opens: str, closes: str) -> None:
    windows = Windows(texts=("22:00-04:00",), time_zone="Europe/Berlin")
    assert windows.changes_at(at(now)) == at(opens)
    assert windows.changes_at(at(opens)) == at(closes)


def test_a_window_within_the_hour_that_is_skipped_opens_on_the_next_day() -> None:
    windows = Windows(texts=("02:15-02:45",), time_zone="Europe/Berlin")
    assert windows.changes_at(at("2026-03-28 12:00")) == at("2026-03-30 00:15")


def test_a_window_within_the_hour_that_is_repeated_opens_twice() -> None:
    windows = Windows(texts=("02:15-02:45",), time_zone="Europe/Berlin")
    changes = [at("2026-10-25 00:00")]
    for _ in range(4):
        changes.append(windows.changes_at(changes[-1]) or 0.0)
    assert changes[1:] == [at(f"2026-10-25 {hour}:{minute}") for hour in ("00", "01") for minute in ("15", "45")]


def test_work_is_continued_in_the_next_window() -> None:
    windows = Windows(texts=("22:00-23:00",))
    assert windows.after_open(at("2026-11-23 12:00"), 30 * MINUTE_S) == at("2026-11-23 22:30")
    assert windows.after_open(at("2026-11-23 22:50:30"), 20 * MINUTE_S) == at("2026-11-24 22:10:30")
    assert windows.after_open(at("2026-11-23 12:00"), 24 * 60 * MINUTE_S) is None


@pytest.mark.parametrize(
    "window",
    ["", "22:00", "22-04", "24:00-04:00", "22:00-24:01", "22:60-23:00", "04:00-04:00", "day 22:00-04:00",
     "mon- 22:00-04:00", "mon, 22:00-04:00", "-fri 22:00-04:00", "mon 2:00-4:00", "٢٢:00-04:00"],
)  # fmt: skip
def test_what_is_no_window_is_refused(window: str) -> None:
    with pytest.raises(Invalid, match="is no window"):
        Windows(texts=(window,)).check()


@pytest.mark.parametrize("name", ["Nowhere", "", "../UTC", "Europe", "/etc/passwd", "Europe/Berlin\0"])
def test_an_unknown_time_zone_is_refused(name: str) -> None:
    windows = Windows(time_zone=name)
    assert not windows.is_known_here
    with pytest.raises(Invalid, match="not known here"):
        windows.check()
