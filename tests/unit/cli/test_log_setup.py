"""The program's log: what it tells of a bug."""

import pytest
import structlog

from whimbrel.cli import log_setup


def test_a_traceback_says_where_and_what_and_nothing_of_what_variables_hold(capsys: pytest.CaptureFixture[str]) -> None:
    log_setup.configure(verbose=False)
    password = "open sesame".upper()
    try:
        raise ValueError(f"a word of {len(password)} letters")
    except ValueError:
        structlog.get_logger().exception("a bug")
    told = capsys.readouterr().err
    assert "a bug" in told
    assert "ValueError: a word of 11 letters" in told
    assert password not in told
