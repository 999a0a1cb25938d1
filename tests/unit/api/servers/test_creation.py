"""What is made up of a wish when a server is created."""

import pytest

from whimbrel.api.servers import creation
from whimbrel.domain.errors import Invalid


@pytest.mark.parametrize(
    ("name", "hostname"),
    [("web", "web"), ("Web Server_1.example", "web-server-1-example"), ("-x-", "x"), ("名", ""), ("a" * 100, "a" * 63)],
)
def test_a_name_becomes_a_hostname(name: str, hostname: str) -> None:
    assert creation.hostname_from(name) == hostname


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (None, (None, None)),
        ("z", ("z", None)),
        ("z:h", ("z", "h")),
        ("z:h:h", ("z", "h")),
        ("z::h", ("z", "h")),
        (":h", (None, "h")),
    ],
)
def test_a_zone_may_name_a_host(text: str | None, parts: tuple[str | None, str | None]) -> None:
    assert creation.zone_and_host(text) == parts


@pytest.mark.parametrize("text", ["a:b:c:d", "z:h:n"])
def test_a_zone_that_cannot_be_parsed_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        creation.zone_and_host(text)
