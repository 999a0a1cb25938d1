"""What commands write with --json is what docs/generated/json.md says, on a running cloud; and their exit codes."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.live.running_cloud import RunningCloud, running_cloud
from tools.document_fields import fields_of
from tools.json_page import SHAPES

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCloud]:
    with running_cloud(tmp_path_factory.mktemp("cloud")) as running:
        words = ("server", "create", "--flavor", "m1.tiny", "--image", "tick", "--no-network", "--wait", "one")
        running.say(*words)
        running.say(*words[:-1], "idle")
        running.say("server", "resize", "--flavor", "m1.small", "--wait", "one")
        yield running


def undescribed(document: Any, fields: Mapping[str, str], path: str = "") -> Iterator[str]:
    """Yield the fields of a document that the page does not have."""
    word = fields.get(path, "")
    if "any" in word.split():
        return
    if isinstance(document, list):
        for each in document:
            yield from undescribed(each, fields, f"{path}[]")
    elif isinstance(document, dict):
        has_any_keys = word.startswith("object of")
        for name, value in document.items():
            inner = f"{path}{{}}" if has_any_keys else f"{path}.{name}".lstrip(".")
            if not has_any_keys and inner not in fields:
                yield inner
            yield from undescribed(value, fields, inner)


# What the tests after a command, in whichever order they are run, need to be as it was.
UNDONE_BY = {"cell disable": "cell enable", "host disable": "host enable"}


@pytest.mark.parametrize(
    ("command", "more", "code"),
    [
        ("status", (), 0),
        ("processes", (), 0),
        ("move list", ("--kind", "all"), 0),
        ("move show", ("MOVE",), 0),
        ("move show --why", ("MOVE",), 0),
        ("server history", ("one",), 0),
        ("zone list", (), 0),
        ("cell list", (), 0),
        ("cell disable", ("one",), 0),
        ("cell enable", ("one",), 0),
        ("host list", (), 0),
        ("host show", ("n1",), 0),
        ("host disable", ("n2",), 0),
        ("host enable", ("n2",), 0),
        ("plan migrate", ("idle",), 0),
        ("prove", (), 0),
        ("repair", ("--dry-run",), 0),
        ("restore show", (), 0),
        ("upgrade check", (), 0),
    ],
)
def test_a_document_has_the_fields_of_its_page(
    cloud: RunningCloud, command: str, more: tuple[str, ...], code: int
) -> None:
    words = [_move(cloud) if word == "MOVE" else word for word in more]
    local = ["--data-dir", str(cloud.home.path)] if command in ("processes", "upgrade check") else []
    done = cloud.run("whimbrel", *command.split(), *words, *local, "--json")
    assert done.returncode == code, done.stderr
    shape = SHAPES[command]
    document = json.loads(done.stdout)
    msgspec.convert(document, shape)
    assert sorted(set(undescribed(document, fields_of(shape)))) == []
    if command in UNDONE_BY:
        cloud.run("whimbrel", *UNDONE_BY[command].split(), *words).check_returncode()


def test_errors_have_their_exit_codes_and_nothing_on_standard_output(cloud: RunningCloud, tmp_path: Path) -> None:
    for words, code in (
        (("move", "show", "ffffffff", "--json"), 1),
        (("move", "list", "--format", "value", "-c", "nothing"), 2),
        (("move", "list", "--data-dir", str(tmp_path)), 1),
    ):
        done = cloud.run("whimbrel", *words)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert done.stderr.startswith("whimbrel: ")


def _move(cloud: RunningCloud) -> str:
    return cloud.run("whimbrel", "move", "list", "--format", "value", "-c", "id").stdout.split()[0]
