"""[notifications]: the broker, whose URL is a secret, and the rules that all processes share."""

from pathlib import Path

import pytest

from whimbrel.domain.errors import Invalid
from whimbrel.domain.notification_rules import NotificationRules
from whimbrel.settings import load

CELL = """
[[cell]]
name = "c1"
[[cell.host]]
driver = "simulated"
name = "h1"
zone = "z"
vcpus = 1
memory_mib = 1
disk_gib = 1
"""


def file_with(directory: Path, *lines: str) -> Path:
    file = directory / "cloud.toml"
    file.write_text("\n".join(["[notifications]", *lines, CELL]))
    return file


def test_they_are_off_unless_they_are_enabled() -> None:
    config = load(None)
    assert not config.rules.notifications.enabled
    assert config.notifications.transport_url is None


def test_the_rules_are_those_of_the_table(tmp_path: Path) -> None:
    told = "enabled = true", 'notify_on_state_change = "vm_state"', "bdms_in_notifications = true", "backlog_s = 60"
    told = *told, 'notification_format = "both"'
    assert load(file_with(tmp_path, *told)).rules.notifications == NotificationRules(
        enabled=True,
        notification_format="both",
        notify_on_state_change="vm_state",
        bdms_in_notifications=True,
        backlog_s=60.0,
    )


def test_the_url_of_the_broker_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "notifications.url").write_text("rabbit://me:secret@mq:5672/\n")
    config = load(file_with(tmp_path, 'transport_url_file = "notifications.url"', 'ca_file = "ca.pem"'))
    assert config.notifications.transport_url == "rabbit://me:secret@mq:5672/"
    assert config.notifications.ca_file == str(tmp_path / "ca.pem")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (('transport_url = "http://mq/"',), "transport_url"),
        (('transport_url_file = "there.is.none"',), "transport_url_file"),
        (('transport_url = "rabbit://mq/"', 'transport_url_file = "x"'), "remove one of them"),
        (('queues = "lazy"',), "'transient', 'durable' or 'quorum'"),
        (('notification_format = "legacy"',), "'versioned', 'unversioned' or 'both'"),
        (("backlog_s = 1",), "a number of seconds from 60"),
        (("topics = []",), "a list of names"),
        (("driver = 1",), "unknown key 'driver'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, lines: tuple[str, ...], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        load(file_with(tmp_path, *lines))
