"""Negotiation of the Placement API's version."""

import pytest

from whimbrel.placement_api.microversions import FIRST, LAST, MICROVERSIONS, negotiate
from whimbrel.placement_api.problems import Problem


def test_the_list_has_no_holes() -> None:
    assert list(MICROVERSIONS) == list(range(FIRST, LAST + 1))
    assert LAST == 39


@pytest.mark.parametrize(
    ("header", "minor"),
    [
        (None, 0),
        ("placement 1.0", 0),
        ("placement 1.39", 39),
        ("placement latest", 39),
        ("compute 2.1, placement 1.7", 7),
        ("compute 2.1", 0),
    ],
)
def test_negotiate(header: str | None, minor: int) -> None:
    assert negotiate(header) == minor


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("placement 1.40", 406),
        ("placement 0.9", 406),
        ("placement 2.0", 406),
        ("placement x", 400),
        ("placement 1", 400),
    ],
)
def test_refused(header: str, status: int) -> None:
    with pytest.raises(Problem) as found:
        negotiate(header)
    assert found.value.status == status
