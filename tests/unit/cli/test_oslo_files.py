"""Which database a settings file of OpenStack names, and what is said of a file that names none."""

from pathlib import Path

import pytest

from whimbrel.cli.oslo_files import read_connection, read_settings
from whimbrel.domain.errors import Invalid

URL = "mysql+pymysql://nova:p%40ss@db/nova"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "nova.conf"


def test_a_section_or_the_whole_file_is_the_url(file: Path) -> None:
    file.write_text(f"[DEFAULT]\ndebug\n[api_database]\nconnection = other\nconnection = {URL}\n")
    assert read_connection(file, "api_database", "--nova-conf") == URL
    assert read_settings(file, "--nova-conf").has_section("api_database")
    for url in (URL, "postgresql://u@[::1]/nova"):
        file.write_text(f" {url}\n")
        assert read_connection(file, "api_database", "--nova-conf") == url
        assert not read_settings(file, "--nova-conf").sections()


@pytest.mark.parametrize(
    "text", ["", "[database]\nconnection = mysql://u@h/d\n", "[api_database]\nconnection =\n", "db"]
)
def test_a_file_without_the_url_is_refused(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(Invalid, match=r"--nova-conf .*nova.conf has no 'connection' in its section \[api_database\]"):
        read_connection(file, "api_database", "--nova-conf")


def test_a_file_that_cannot_be_read_is_refused_with_the_reason(file: Path) -> None:
    with pytest.raises(Invalid, match=r"--nova-conf .*nova.conf cannot be read \(No such file or directory\)"):
        read_settings(file, "--nova-conf")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(Invalid, match="it is no text in UTF-8"):
        read_settings(file, "--nova-conf")
    file.write_text("[api_database\nconnection = x://y\n")
    with pytest.raises(Invalid, match="is no settings file of OpenStack"):
        read_settings(file, "--nova-conf")
