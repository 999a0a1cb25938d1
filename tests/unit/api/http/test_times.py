"""Times as they are written and read."""

import pytest

from whimbrel.api.http import times
from whimbrel.domain.errors import Invalid


def test_times_are_written_in_both_forms() -> None:
    assert times.with_zone(86400.5) == "1970-01-02T00:00:00Z"
    assert times.with_fraction(86400.5) == "1970-01-02T00:00:00.500000"
    assert times.with_fraction(None) is None
    assert times.with_zone(1e15).startswith("9999-12-31")


def test_times_are_read_in_any_zone() -> None:
    assert times.read(None) is None
    assert times.read("1970-01-02T00:00:00") == 86400
    assert times.read("1970-01-02T00:00:00Z") == 86400
    assert times.read("1970-01-02T02:00:00+02:00") == 86400


def test_a_span_has_its_end_behind_its_beginning() -> None:
    assert times.span("1970-01-02", None) == (86400, None)
    with pytest.raises(Invalid):
        times.span("1970-01-03", "1970-01-02")
