"""What every connector of volumes does with an NFS share; os-brick's program does it with mounts of this machine."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.volume_connectors import ADDRESS, HOST, FakeConnector, PlayedShares
from whimbrel.adapters.brick.brick_client import BrickClient
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.ports.hosts.volume_connector import Connected, VolumeConnector

SHARE = "127.0.0.1:/volumes"
OTHER = "127.0.0.1:/others"
NO_MOUNTS = "only root can mount shares"


@pytest.fixture
def shares(tmp_path: Path) -> dict[str, Path]:
    found = {SHARE: tmp_path / "volumes", OTHER: tmp_path / "others"}
    for path in found.values():
        path.mkdir()
        for name in ("volume-1", "volume-2"):
            (path / name).write_text(f"{path.name} {name}")
    return found


@pytest.fixture
def played(shares: dict[str, Path], tmp_path: Path) -> Iterator[PlayedShares]:
    if os.geteuid() or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip(NO_MOUNTS)
    found = PlayedShares(shares, tmp_path / "played")
    yield found
    found.close()


@pytest.fixture(params=["fake", pytest.param("os-brick", marks=pytest.mark.long)])  # it is loaded for each order
def connector(request: pytest.FixtureRequest, shares: dict[str, Path], tmp_path: Path) -> VolumeConnector:
    if request.param == "fake":
        return FakeConnector(shares, tmp_path / "links")
    played: PlayedShares = request.getfixturevalue("played")
    return played.client()


def volume(name: str = "volume-1", share: str = SHARE) -> dict[str, Any]:
    return {"export": share, "name": name, "options": None, "format": "raw", "qos_specs": None}


def content(connected: Connected) -> str | None:
    """Read a volume; None: it is not here."""
    path = Path(connected.path)
    return path.read_text() if path.exists() else None


async def test_a_host_says_what_it_is_and_what_it_connects(connector: VolumeConnector) -> None:
    abilities = await connector.abilities()
    assert abilities.connector.items() >= {"host": HOST, "ip": ADDRESS, "multipath": False}.items()
    assert abilities.kinds["nfs"] == ""
    assert "iscsiadm" in abilities.kinds["iscsi"] or abilities.connector["initiator"]


@pytest.mark.long
async def test_volumes_of_a_share_are_files_until_the_share_is_let_go(connector: VolumeConnector) -> None:
    first = await connector.connect("nfs", volume())
    for _ in "ab":
        assert await connector.connect("nfs", volume()) == first
    second = await connector.connect("nfs", volume("volume-2"))
    elsewhere = await connector.connect("nfs", volume(share=OTHER))
    assert content(first) == "volumes volume-1"
    assert content(second) == "volumes volume-2"
    assert content(elsewhere) == "others volume-1"
    for _ in "ab":
        await connector.disconnect("nfs", volume(), first.device)
        assert content(first) is None
    assert content(elsewhere) == "others volume-1"
    assert await connector.connect("nfs", volume()) == first
    await connector.disconnect("nfs", volume(), {})
    await connector.disconnect("nfs", volume(share=OTHER), elsewhere.device)
    assert content(elsewhere) is None


async def test_orders_at_once_do_not_disturb_each_other(connector: VolumeConnector) -> None:
    found = await asyncio.gather(*(connector.connect("nfs", volume(name)) for name in ("volume-1", "volume-2") * 2))
    assert len({each.path for each in found}) == 2
    await asyncio.gather(*(connector.disconnect("nfs", volume(), {}) for _ in "ab"))
    assert content(found[0]) is None


@pytest.mark.parametrize(
    ("kind", "data"),
    [("nfs", volume("volume-3")), ("nfs", volume(share="127.0.0.1:/nothing")), ("sheepdog", {})],
)
async def test_what_cannot_be_connected_is_refused(connector: VolumeConnector, kind: str, data: dict[str, Any]) -> None:
    for _ in "ab":
        with pytest.raises(Refused):
            await connector.connect(kind, data)
    if kind == "nfs":
        await connector.disconnect(kind, data, {})


async def test_files_of_a_share_are_extended_by_their_service_alone(connector: VolumeConnector) -> None:
    found = await connector.connect("nfs", volume())
    with pytest.raises(Refused, match="file"):
        await connector.extend("nfs", volume())
    await connector.disconnect("nfs", volume(), found.device)


# os-brick's program alone


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("../others/volume-1", "/etc/passwd", "")]


@pytest.mark.parametrize("name", ["link", *LONG])
async def test_a_file_outside_of_the_share_is_refused(played: PlayedShares, shares: dict[str, Path], name: str) -> None:
    (shares[SHARE] / "link").symlink_to("/etc/passwd")
    with pytest.raises(Refused):
        await played.client().connect("nfs", volume(name))


async def test_a_share_that_is_in_use_stays(played: PlayedShares) -> None:
    client = played.client()
    found = await client.connect("nfs", volume())
    with Path(found.path).open() as used:  # noqa: ASYNC230
        assert used
        with pytest.raises(Refused, match="busy"):
            await client.disconnect("nfs", volume(), found.device)
        assert played.mounted()
    await client.disconnect("nfs", volume(), found.device)
    assert played.mounted() == []


@pytest.mark.long
async def test_a_killed_order_is_repeated(played: PlayedShares) -> None:
    client = played.client()
    for _ in range(3):
        order = asyncio.create_task(client.connect("nfs", volume()))
        while not played.mounted() and not order.done():  # noqa: ASYNC110
            await asyncio.sleep(0)
        order.cancel()
        await asyncio.wait([order])
        found = await client.connect("nfs", volume())
        assert content(found) == "volumes volume-1"
        assert len(played.mounted()) == 1
        await client.disconnect("nfs", volume(), found.device)
    assert played.mounted() == []


@pytest.mark.long
async def test_a_program_behind_a_socket_is_asked_as_a_child_is(played: PlayedShares, tmp_path: Path) -> None:
    """As systemd does: each connection is the standard input and output of a process."""
    behind = played.client()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await behind._by_child(await reader.readline()))
        writer.close()

    socket = tmp_path / "s"
    server = await asyncio.start_unix_server(serve, socket)
    async with server:
        client = BrickClient(HOST, ADDRESS, socket=socket)
        found = await client.connect("nfs", volume())
        assert content(found) == "volumes volume-1"
        await client.disconnect("nfs", volume(), found.device)
    assert played.mounted() == []
    with pytest.raises(Unavailable):
        await client.connect("nfs", volume())
