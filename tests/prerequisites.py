"""Prerequisites of live tests: a missing one skips the test with the command that installs it; in CI the test fails."""

import os
from typing import NoReturn

import pytest

POSTGRES = os.environ.get("WHIMBREL_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
"""Where the tests find a PostgreSQL server: a database in which they may make and drop schemas."""


def missing(what: str, install: str) -> NoReturn:
    """Skip this test for people; fail it where CI promised that all is there. install: a command."""
    message = f"{what}; install it with: {install}"
    if os.environ.get("CI_LIVE"):
        pytest.fail(message)
    pytest.skip(message)
