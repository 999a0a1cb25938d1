"""The directory of an agent: private, and never without a key that the cloud has admitted."""

from pathlib import Path

import msgspec
import pytest

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.ids import CellName, HostName
from whimbrel.settings.agentdir import AgentDir, Membership

MEMBERSHIP = Membership(host=HostName("n17"), cell=CellName("c1"), bus_urls=("tls://bus:4222",), jwt="ey.a.b")


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    home = AgentDir(tmp_path / "there" / "agent")
    home.keep_new_seed(b"SUAB\n")
    assert not home.membership_file.exists()
    home.complete(MEMBERSHIP, "-----BEGIN CERTIFICATE-----")
    again = AgentDir(home.path)
    assert (again.membership(), again.seed()) == (MEMBERSHIP, b"SUAB")
    assert again.ca_file is not None
    assert again.ca_file.read_text() == "-----BEGIN CERTIFICATE-----"


def test_nobody_else_reads_it(tmp_path: Path) -> None:
    home = AgentDir(tmp_path / "agent")
    home.keep_new_seed(b"SUAB")
    assert home.new_seed_file.stat().st_mode & 0o777 == 0o600
    home.complete(MEMBERSHIP, "pem")
    assert home.path.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in home.path.iterdir()} == {0o600}


def test_a_key_that_was_not_admitted_replaces_none(tmp_path: Path) -> None:
    home = AgentDir(tmp_path)
    home.keep_new_seed(b"first")
    home.complete(MEMBERSHIP, "pem")
    home.keep_new_seed(b"second")
    assert home.seed() == b"first"
    home.complete(msgspec.structs.replace(MEMBERSHIP, jwt="new"), "")
    assert (home.seed(), home.membership().jwt, home.ca_file) == (b"second", "new", None)
    assert not home.new_seed_file.exists()


def test_says_what_to_do_without_a_host_that_joined(tmp_path: Path) -> None:
    home = AgentDir(tmp_path / "agent")
    with pytest.raises(NotFound, match="whimbrel host invite"):
        home.membership()
    with pytest.raises(NotFound, match="whimbrel host invite"):
        home.seed()


def test_says_that_a_file_is_damaged_or_cannot_be_written(tmp_path: Path) -> None:
    home = AgentDir(tmp_path)
    home.membership_file.write_text("{")
    with pytest.raises(Refused, match="is damaged"):
        home.membership()
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="--dir"):
        AgentDir(tmp_path / "file" / "agent").keep_new_seed(b"x")
