"""Exit codes: those of the table in docs/generated/json.md."""

from typing import Any

import pytest
from cyclopts import App

from tools.json_page import EXIT_CODES
from whimbrel import cli
from whimbrel.cli import plan
from whimbrel.domain.errors import Invalid, NotFound, Refused, Unavailable


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        (None, 0),
        (cli.SAYS_NO, 1),
        (Refused("no"), 1),
        (NotFound("not there"), 1),
        (Unavailable("no answer"), 1),
        (Invalid("wrong"), 2),
        (plan.NO_HOST, 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_a_command_ends_with_a_code_of_the_table(ends: Any, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App(result_action="return_value")

    @app.default
    def act() -> Any:
        if isinstance(ends, BaseException):
            raise ends
        return ends

    monkeypatch.setattr(cli, "app", app)
    with pytest.raises(SystemExit) as end:
        cli.main([])
    assert end.value.code == code
    assert code in EXIT_CODES
