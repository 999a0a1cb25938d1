"""`whimbrel bus init`: one configuration for all times, without secrets. `whimbrel bus leaf`: what it refuses."""

from pathlib import Path

import pytest

from tests.unit.cli.test_commands import refusal, run

LEAF = ("--name", "far", "--cell", "cell1")


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


@pytest.mark.parametrize("hub", ["hub", ":7422", "hub:", "hub:0", "hub:65536", "hub:x", "tls://hub:7422"])
def test_a_leaf_server_is_told_where_its_hub_listens(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, settings: list[str], hub: str
) -> None:
    said = refusal(capsys, 2, "bus", "leaf", str(tmp_path / "leaf"), *LEAF, "--hub", hub, *settings)
    assert f"{hub} is not HOST:PORT" in said
    assert not (tmp_path / "leaf").exists()


def test_a_leaf_server_has_a_name_without_spaces(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, settings: list[str]
) -> None:
    named = ("--name", "far leaf", "--cell", "cell1", "--hub", "hub:7422")
    assert "no space" in refusal(capsys, 2, "bus", "leaf", str(tmp_path / "leaf"), *named, *settings)
