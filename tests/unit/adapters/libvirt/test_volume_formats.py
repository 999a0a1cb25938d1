"""The file of a volume is taken for what the volume service says of it, or refused: never for what it looks like."""

import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.prerequisites import missing
from whimbrel.adapters.libvirt import volume_formats
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain.errors import Refused

VOLUME = "volume-5f0c5be4-1a3b-4d3f-9e57-0f6f0f6f0f6f"
OTHER = "volume-00000000-0000-4000-8000-000000000000"


@pytest.fixture(autouse=True)
def qemu_img() -> None:
    if not shutil.which("qemu-img"):
        missing("qemu-img is not installed", "apt-get install qemu-utils")


def made(path: Path, *more: str) -> Path:
    subprocess.run(["qemu-img", "create", "-q", "-u", "-f", "qcow2", *more, str(path), "1M"], check=True)
    return path


def snapshot(share: Path, below: str = VOLUME, below_format: str = "raw") -> Path:
    return made(share / f"{VOLUME}.{uuid.uuid4()}", "-b", below, "-F", below_format)


async def check(path: Path, declared: str | None) -> None:
    data = {"name": path.name} | ({"format": declared} if declared else {})
    await volume_formats.check(Tools(None), "v1", data, path)


async def test_what_is_as_it_is_said_is_taken(tmp_path: Path) -> None:
    first = tmp_path / VOLUME
    first.write_bytes(bytes(1 << 20))
    await check(first, "raw")
    await check(first, None)
    below = snapshot(tmp_path)
    for active in (below, snapshot(tmp_path, below.name, "qcow2"), made(tmp_path / f"{VOLUME}.{uuid.uuid4()}")):
        await check(active, "qcow2")


@pytest.mark.parametrize("declared", ["raw", None])
async def test_a_connection_from_before_a_snapshot_is_refused(tmp_path: Path, declared: str | None) -> None:
    (tmp_path / VOLUME).write_bytes(bytes(1 << 20))
    active = snapshot(tmp_path)
    with pytest.raises(Refused, match=f"{active.name} of volume v1 .* is qcow2: the connection may be from before"):
        await check(active, declared)


async def test_a_header_that_a_guest_wrote_makes_no_raw_volume_qcow2(tmp_path: Path) -> None:
    first = made(tmp_path / VOLUME, "-b", "/etc/passwd", "-F", "raw")
    await check(first, "raw")
    with pytest.raises(Refused, match="said to be of no format, and is qcow2"):
        await check(first, None)
    with pytest.raises(Refused, match="is above /etc/passwd, not its own"):
        await check(first, "qcow2")


async def test_raw_contents_are_not_taken_for_qcow2(tmp_path: Path) -> None:
    (tmp_path / VOLUME).write_bytes(bytes(1 << 20))
    with pytest.raises(Refused, match=f"{VOLUME} of volume v1 is said to be qcow2: not a readable qcow2 image"):
        await check(tmp_path / VOLUME, "qcow2")


@pytest.mark.parametrize(
    "below", [OTHER, f"{OTHER}.{uuid.UUID(int=1)}", f"../share/{VOLUME}", f"json:{VOLUME}", "/dev/sda"]
)
async def test_a_file_of_another_volume_is_not_opened(tmp_path: Path, below: str) -> None:
    with pytest.raises(Refused, match="not its own"):
        await check(snapshot(tmp_path, below), "qcow2")
    middle = snapshot(tmp_path, below)
    with pytest.raises(Refused, match="not its own"):
        await check(snapshot(tmp_path, middle.name, "qcow2"), "qcow2")


async def test_a_chain_says_each_format_and_ends(tmp_path: Path) -> None:
    made(tmp_path / VOLUME, "-b", VOLUME, "-F", "qcow2")
    with pytest.raises(Refused, match="not its own"):
        await check(tmp_path / VOLUME, "qcow2")
    active = snapshot(tmp_path, VOLUME, "vmdk")
    with pytest.raises(Refused, match=f"does not say the format of {VOLUME}"):
        await check(active, "qcow2")
    (tmp_path / VOLUME).unlink()
    await check(made(tmp_path / VOLUME), "qcow2")
    external = tmp_path / "external"
    separate = made(tmp_path / f"{VOLUME}.{uuid.uuid4()}", "-o", f"data_file={external}")
    with pytest.raises(Refused, match="has its data in another file"):
        await check(separate, "qcow2")
