"""Which database a command uses, and that its password is kept off the command line."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from whimbrel.cli.database_option import VARIABLE, chosen_database, warn_of_passwords
from whimbrel.domain.errors import Invalid

URL = "postgresql://u:secret@h/d"


def test_an_option_goes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "url"
    file.write_text(f"{URL}\n")
    monkeypatch.delenv(VARIABLE, raising=False)
    assert chosen_database(None, None) is None
    monkeypatch.setenv(VARIABLE, "sqlite:///there")
    assert chosen_database(None, None) == "sqlite:///there"
    assert chosen_database(None, None, variable=None) is None
    assert chosen_database(None, file) == URL
    assert chosen_database("sqlite:///here", None) == "sqlite:///here"


def test_what_is_wrong_is_said_without_the_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "url"
    file.write_text("\n")
    with pytest.raises(Invalid, match="--db and --db-file both"):
        chosen_database(URL, file, "--db")
    with pytest.raises(Invalid, match=r"--database-file .* is empty"):
        chosen_database(None, file)
    with pytest.raises(Invalid, match=r"--database-file .*/none cannot be read \(No such file or directory\)"):
        chosen_database(None, tmp_path / "none")
    monkeypatch.setenv(VARIABLE, "mysql://u:secret@h/d")
    with pytest.raises(Invalid, match="is not supported") as caught:
        chosen_database(None, None)
    assert "secret" not in caught.value.reason


def test_an_empty_option_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--database "$URL"` with a variable that is not set must not start a cloud on SQLite."""
    monkeypatch.setenv(VARIABLE, "")
    assert chosen_database(None, None) is None
    with pytest.raises(Invalid, match="'' is not supported: use postgresql://"):
        chosen_database("", None)


@pytest.mark.parametrize(
    ("arguments", "warned"),
    [
        (["--database", URL], True),
        ([f"--db={URL}"], True),
        (["--database", "postgresql://h/d?user=u&password=secret"], True),
        (["--os-password", "secret"], True),
        (["--os-password=secret"], True),
        (["--database", "postgresql://u@h/d", "--public-url", "https://cloud:8774/"], False),
        (["--database", "sqlite:////var/lib/whimbrel", "--name", "a:b@c"], False),
        (["--database-file", "url"], False),
    ],
)
def test_a_password_on_the_command_line_is_warned_of(arguments: list[str], warned: bool) -> None:
    with capture_logs() as logged:
        warn_of_passwords(["whimbrel", "up", *arguments])
    assert [each["log_level"] for each in logged] == (["warning"] if warned else [])
    assert "secret" not in str(logged)
