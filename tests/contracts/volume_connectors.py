"""What connects volumes in tests: os-brick with directories in place of NFS shares, and a fake that needs no root.

Invariant: both keep what is connected in the file system only, as the kernel does.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whimbrel.adapters import file_modes
from whimbrel.adapters.brick.brick_client import BrickClient
from whimbrel.domain.errors import Refused
from whimbrel.ports.hosts.volume_connector import Abilities, Connected

HOST = "h1"
ADDRESS = "192.0.2.1"
LACK = "the program iscsiadm is missing: apt-get install open-iscsi"

MOUNT = """\
#!/bin/sh
# Called as os-brick calls it: mount -t nfs [-o OPTIONS] SHARE MOUNT_POINT
eval point=\\${{$#}}
while [ $# -gt 2 ]; do shift; done
case "$1" in
{cases}
*) echo "mount.nfs: access denied by server while mounting $1" >&2; exit 32 ;;
esac
"""


class FakeConnector:
    """Implements VolumeConnector for shares that are directories: a mounted share is a link."""

    def __init__(self, shares: Mapping[str, Path], mounts: Path) -> None:
        self._shares = shares
        self._mounts = mounts

    async def abilities(self) -> Abilities:
        connector = {"host": HOST, "ip": ADDRESS, "multipath": False, "os_type": "linux"}
        return Abilities(connector=connector, kinds={"nfs": "", "iscsi": LACK})

    async def connect(self, kind: str, data: Mapping[str, Any]) -> Connected:
        link = self._link(kind, data)
        share = self._shares.get(data["export"])
        if share is None:
            raise Refused(f"there is no share {data['export']}")
        self._mounts.mkdir(exist_ok=True)
        self._mounts.chmod(file_modes.SEARCHABLE)
        if not link.is_symlink():
            link.symlink_to(share)
        if not (link / data["name"]).is_file():
            raise Refused(f"the share has no file {data['name']}")
        return Connected(path=str(link / data["name"]), device={"path": "x"})

    async def extend(self, kind: str, data: Mapping[str, Any]) -> int:
        raise Refused("a file of a share has no size in the kernel")

    async def disconnect(self, kind: str, data: Mapping[str, Any], device: Mapping[str, Any]) -> None:
        self._link(kind, data).unlink(missing_ok=True)

    def _link(self, kind: str, data: Mapping[str, Any]) -> Path:
        if kind != "nfs":
            raise Refused(f"connections of kind {kind!r} are not known here")
        return self._mounts / hashlib.md5(data["export"].encode(), usedforsecurity=False).hexdigest()


class LoopDevices:
    """Implements VolumeConnector for files that are targets of iSCSI: a connected one is a loop device of this machine.

    owner: the user who opens the devices.
    """

    def __init__(self, files: Mapping[str, Path], owner: str) -> None:
        self._files = files
        self._owner = owner

    async def abilities(self) -> Abilities:
        return Abilities(connector={"host": HOST, "ip": ADDRESS, "multipath": False}, kinds={"iscsi": ""})

    async def connect(self, kind: str, data: Mapping[str, Any]) -> Connected:
        device = self.device(data) or _run("losetup", "--find", "--show", str(self._files[data["target_iqn"]]))
        shutil.chown(device, self._owner)
        return Connected(path=device)

    async def extend(self, kind: str, data: Mapping[str, Any]) -> int:
        device = self.device(data)
        _run("losetup", "--set-capacity", device)
        return int(_run("blockdev", "--getsize64", device))

    async def disconnect(self, kind: str, data: Mapping[str, Any], device: Mapping[str, Any]) -> None:
        if path := self.device(data):
            _run("losetup", "--detach", path)

    def device(self, data: Mapping[str, Any]) -> str:
        """Return the device of a volume; "": it is not connected."""
        said = _run("losetup", "--noheadings", "--output", "NAME", "--associated", str(self._files[data["target_iqn"]]))
        return said.split("\n")[0]


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class PlayedShares:
    """os-brick's program, for which directories are NFS shares: it finds a program `mount` that binds them.

    Only root can mount. Close it: the mounts are those of this machine.
    """

    def __init__(self, shares: Mapping[str, Path], directory: Path) -> None:
        self.mounts = directory / "mounts"
        programs = directory / "programs"
        programs.mkdir(parents=True)
        cases = (
            f'{shlex.quote(share)}) exec /bin/mount --bind {shlex.quote(str(path))} "$point" ;;'
            for share, path in shares.items()
        )
        for name, text in {"mount": MOUNT.format(cases="\n".join(cases)), "mount.nfs": "#!/bin/sh\n"}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.path = f"{programs}:{os.environ['PATH']}"

    def client(self, host: str = HOST) -> BrickClient:
        return BrickClient(host, ADDRESS, mounts=self.mounts, environment=os.environ | {"PATH": self.path})

    def mounted(self) -> list[str]:
        """Return where shares are mounted."""
        points = (line.split()[1] for line in Path("/proc/mounts").read_text().splitlines())
        return [point for point in points if Path(point).is_relative_to(self.mounts)]

    def close(self) -> None:
        for point in self.mounted():
            subprocess.run(["umount", "--lazy", point], check=True)
