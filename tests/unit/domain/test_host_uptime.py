"""The line of a host's uptime: as the program writes it."""

import pytest

from whimbrel.domain.host_uptime import line

MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("up_s", "text"),
    [
        (59, "0 min"),
        (5 * MINUTE, "5 min"),
        (HOUR, " 1:00"),
        (DAY + 2 * MINUTE, "1 day, 2 min"),
        (12 * DAY + 13 * HOUR + 4 * MINUTE, "12 days, 13:04"),
    ],
)
def test_a_line_is_that_of_the_program(up_s: float, text: str) -> None:
    assert line(0.0, up_s, 1, (0.5, 1, 12.345)) == f" 00:00:00 up {text},  1 user,  load average: 0.50, 1.00, 12.35\n"
