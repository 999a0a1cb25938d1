"""The sentences of errors of other services, which users of the compute API read."""

import pytest

from whimbrel.adapters.openstack.answers import error_of
from whimbrel.domain.errors import NotFound


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Port p1 could not be found.", "Port p1 could not be found."),  # as Nova says it
        ("<h1>Not Found</h1>", "the network service answers 404: <h1>Not Found</h1>"),  # of a proxy, or of a wrong URL
    ],
)
def test_what_is_missing_is_named_as_its_service_names_it(message: str, said: str) -> None:
    error = error_of("network", 404, message)
    assert isinstance(error, NotFound)
    assert error.reason == said
