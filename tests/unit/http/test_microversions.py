"""Negotiation of microversions: one contract for all services that have them."""

import pytest

from whimbrel.api.http import microversions as compute
from whimbrel.embedded.volume import microversions as volume
from whimbrel.http.microversions import Microversions
from whimbrel.http.problem import Problem
from whimbrel.placement_api import microversions as placement

SERVICES = pytest.mark.parametrize(
    ("service", "major", "first", "last", "versions"),
    [
        ("compute", 2, 1, 104, compute.VERSIONS),
        ("placement", 1, 0, 39, placement.VERSIONS),
        ("volume", 3, 0, 70, volume.VERSIONS),
    ],
)


@SERVICES
def test_a_version_is_negotiated(service: str, major: int, first: int, last: int, versions: Microversions) -> None:
    headers = {
        "": first,
        "identity 3.14": first,
        f"{service} {major}.{first}": first,
        f"{service} {major}.{last}": last,
        f"{service} latest": last,
        f"identity 3.14, {service} {major}.7": 7,
    }
    assert {header: versions.negotiate(header) for header in headers} == headers


@SERVICES
def test_a_version_is_refused(service: str, major: int, first: int, last: int, versions: Microversions) -> None:
    statuses = {
        f"{major}.{last + 1}": 406,
        f"{major}.{first - 1}": 406,
        f"{major - 1}.{first + 1}": 406,
        f"{major + 1}.{first}": 406,
        str(major): 400,
        "three": 400,
        f"{major}.x": 400,
        f"{major}.1.1": 400,
    }
    for version, status in statuses.items():
        with pytest.raises(Problem, match=version) as refused:
            versions.negotiate(f"{service} {version}")
        assert refused.value.status == status, version
        assert refused.value.extra == (
            {"min_version": f"{major}.{first}", "max_version": f"{major}.{last}"} if status == 406 else {}
        )


def test_a_legacy_header_counts_where_the_standard_one_does_not_name_the_service() -> None:
    assert compute.VERSIONS.negotiate("", "2.12") == 12
    assert compute.VERSIONS.negotiate("volume 3.1", "2.12") == 12
    assert compute.VERSIONS.negotiate("compute 2.30", "2.12") == 30
    with pytest.raises(Problem, match="two"):
        compute.VERSIONS.negotiate("", "two")


def test_the_lists_of_versions_have_no_holes() -> None:
    assert list(compute.MICROVERSIONS) == list(range(1, 105))
    assert list(placement.MICROVERSIONS) == list(range(40))
