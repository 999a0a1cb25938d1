"""Which reasons of a failed connection pass by themselves."""

import pytest

from whimbrel.adapters.sql.engine.outages import is_outage

PREFIX = 'connection failed: connection to server at "10.77.2.14", port 5432 failed: '
REFUSED = f"{PREFIX}Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?"
READ_ONLY = f"{PREFIX}session is read-only"
PASSWORD = f'{PREFIX}FATAL:  password authentication failed for user "whimbrel"'


def of_several(*reasons: str) -> str:
    """Return psycopg's message for a URL with several hosts."""
    lines = (f"- host: '10.77.2.1', port: '5432', hostaddr: '10.77.2.1': {reason}" for reason in reasons)
    return "\n".join((reasons[-1], "Multiple connection attempts failed. All failures were:", *lines))


@pytest.mark.parametrize("join", [str, lambda reason: " ".join(reason.split())], ids=["as it is", "in one line"])
@pytest.mark.parametrize(
    ("reason", "passes"),
    [
        (REFUSED, True),
        (READ_ONLY, True),
        (f"{PREFIX}FATAL:  the database system is starting up", True),
        (of_several(REFUSED, READ_ONLY), True),
        (PASSWORD, False),
        (of_several(PASSWORD, REFUSED), False),
        (of_several(REFUSED, PASSWORD), False),
        ("failed to resolve host 'nohost.invalid': [Errno -2] Name or service not known", False),
        (f'{PREFIX}FATAL:  database "nodb" does not exist', False),
        ("all connections to the database are in use", False),
    ],
)
def test_an_outage_is_told_from_a_wrong_setting(reason: str, passes: bool, join: type[str]) -> None:
    assert is_outage(join(reason)) is passes
