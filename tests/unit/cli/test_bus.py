"""`whimbrel bus init`: one configuration for all times, without secrets."""

from pathlib import Path

import pytest

from tests.unit.cli.test_commands import refusal, run


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    file = tmp_path / "whimbrel.toml"
    file.write_text(f'[database]\nurl = "sqlite:///{tmp_path / "db"}"\n')
    return ["--settings", str(file)]


def test_the_configuration_is_the_same_each_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, settings: list[str]
) -> None:
    assert "run `whimbrel db upgrade`" in refusal(capsys, 1, "bus", "init", *settings)
    assert run(capsys, "db", "upgrade", *settings)[0] == 0
    _, printed, _ = run(capsys, "bus", "init", *settings, "--listen", "127.0.0.1:4333")
    file = tmp_path / "nats.conf"
    run(capsys, "bus", "init", *settings, "--listen", "127.0.0.1:4333", "--output", str(file))
    assert file.read_text() == printed
    assert 'listen: "127.0.0.1:4333"' in printed
    assert "give --certificate and --key" in refusal(capsys, 2, "bus", "init", *settings, "--key", "k.pem")
