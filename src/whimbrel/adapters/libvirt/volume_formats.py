"""Whether the file of a volume is in the format that the volume service says.

The service is believed, the contents are not: a guest writes those of a raw volume, and could write a header that names
any file. So no format is ever detected. A connection that was made before a snapshot may still have the older format;
where it contradicts the file, the volume is refused.
Invariant: no file is opened that is not the volume's own.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whimbrel.adapters.libvirt.volume_xml import FORMATS
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain.errors import Refused

MAGIC = b"QFI\xfb"
SNAPSHOT = re.compile(r"(?P<volume>.+)\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The file of a snapshot, as Cinder names it: the volume's first file, and the id of the snapshot."""


async def check(tools: Tools, volume_id: str, data: Mapping[str, Any], path: Path) -> None:
    """Check a volume that is connected as a file. data: of its connection. Raises: Refused: a contradiction."""
    if (data.get("format") or "raw") == "raw":
        await _check_raw(tools, volume_id, data, path)
    else:
        await check_chain(tools, volume_id, path)


async def check_chain(tools: Tools, volume_id: str, active: Path) -> None:
    """Check that a file is in qcow2, and that those below it are of the same volume. Raises: Refused."""
    at, seen = active, {active}
    while True:
        try:
            header = await tools.header(at, "qcow2")
        except Refused as error:
            raise Refused(f"the file {at.name} of volume {volume_id} is said to be qcow2: {error.reason}") from error
        if header.has_data_file:
            raise Refused(f"the file {at.name} of volume {volume_id} has its data in another file")
        if header.backing_filename is None:
            return
        below = at.parent / header.backing_filename
        if below.parent != at.parent or _first(below.name) != _first(active.name) or below in seen:
            raise Refused(f"the file {at.name} of volume {volume_id} is above {header.backing_filename}, not its own")
        if header.backing_filename_format not in FORMATS:
            raise Refused(f"the file {at.name} of volume {volume_id} does not say the format of {below.name}")
        if header.backing_filename_format == "raw":
            return
        at = below
        seen.add(at)


async def _check_raw(tools: Tools, volume_id: str, data: Mapping[str, Any], path: Path) -> None:
    """A volume's first file may have any contents, if the service says that it is raw: its guest wrote them."""
    if data.get("format") == "raw" and _first(path.name) == path.name:
        return
    if await tools.run("head", "-c", str(len(MAGIC)), str(path)) == MAGIC:
        said = "raw" if data.get("format") else "of no format"
        raise Refused(
            f"the file {path.name} of volume {volume_id} is said to be {said}, and is qcow2: the connection may be from"
            " before a snapshot; detach the volume and attach it again"
        )


def _first(name: str) -> str:
    """Return the name of a volume's first file."""
    found = SNAPSHOT.fullmatch(name)
    return found["volume"] if found else name
