"""`whimbrel processes`: whom it asks, and how a process looks."""

from pathlib import Path

import pytest

from tests.unit.cli.test_commands import refusal
from tests.unit.cli.test_listing import at_a_terminal
from whimbrel.api.views.processes import ListedProcess
from whimbrel.cli.processes import listed

CLOUD = """
clouds:
  other:
    auth: {auth_url: "http://127.0.0.1:1/v3", username: a, password: p, project_name: x}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    made = tmp_path / "clouds.yaml"
    made.write_text(CLOUD)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(made))
    monkeypatch.delenv("WHIMBREL_DATABASE", raising=False)
    return str(made)


def test_it_asks_the_cloud_of_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    assert f"{file} has no cloud 'nobody'" in refusal(capsys, 1, "processes", "--os-cloud", "nobody")
    monkeypatch.setenv("OS_CLOUD", "other")
    monkeypatch.setenv("WHIMBREL_DATABASE", "sqlite:////nowhere")
    assert "the cloud does not answer at http://127.0.0.1:1/v3" in refusal(capsys, 1, "processes")


def test_an_option_names_the_database(capsys: pytest.CaptureFixture[str], file: str, tmp_path: Path) -> None:
    assert "the cloud does not answer" not in refusal(capsys, 1, "processes", "--data-dir", str(tmp_path))


def test_a_process_is_a_line() -> None:
    one = ListedProcess(
        id="p", role="up", name="main", host="m1", pid=7, release="0.2.0", live=False, parts=("hosts", "images"),
        started_at=86400.0, seen_at=86400.0,
    )  # fmt: skip
    assert at_a_terminal(listed([one]))[1].split() == [
        *("up", "main", "m1", "7", "0.2.0", "dead", "1970-01-02", "00:00:00"),
        *("hosts,", "images"),
    ]
