"""The program that runs os-brick: one request on standard input, one answer on standard output, then it ends.

Invariants: only this module imports os-brick, which loads eventlet: no other process of Whimbrel has it. It runs as
root, and os-brick's privileged part runs inside of it, not in a daemon of its own. One process at a time changes a
share or the block devices, also if the agent that asked was killed.
"""

import fcntl
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import msgspec

from whimbrel.adapters import file_modes
from whimbrel.adapters.brick.brick_request import PROTOCOLS, BrickAnswer, BrickRequest, general_shortfall
from whimbrel.domain.errors import Refused
from whimbrel.ports.hosts.volume_connector import Abilities, Connected

ISCSI_NAME = Path("/etc/iscsi/initiatorname.iscsi")
FC_HOSTS = Path("/sys/class/fc_host")
FABRICS = Path("/dev/nvme-fabrics")
SYSTEM_PLACES = "/usr/sbin:/sbin"
UMOUNT_S = 30.0
BUSY_TRIES = 10
BUSY_S = 0.3


def serve(mounts: Path) -> None:
    """Answer the request on standard input. mounts: the directory of the mounted shares."""
    with redirect_stdout(sys.stderr):  # the answer is all that may be written there
        answer = _answer(sys.stdin.buffer.readline(), mounts)
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


def _answer(line: bytes, mounts: Path) -> BrickAnswer:
    try:
        request = msgspec.json.decode(line, type=BrickRequest)
    except msgspec.DecodeError as error:
        return BrickAnswer(refused=f"not a request: {error}")
    try:
        return _carried_out(request, mounts)
    except Refused as refusal:
        return BrickAnswer(refused=refusal.reason)
    except Exception as error:  # os-brick and what it calls raise many kinds
        return BrickAnswer(refused=f"os-brick: {type(error).__name__}: {error}")


def _carried_out(request: BrickRequest, mounts: Path) -> BrickAnswer:
    if request.verb == "abilities":
        return BrickAnswer(abilities=_abilities(request))
    protocol = PROTOCOLS.get(request.kind)
    if protocol is None:
        raise Refused(f"connections of kind {request.kind!r} are not known here")
    if shortfall := general_shortfall():
        raise Refused(shortfall)
    _set_up(mounts)
    if request.kind == "nfs":
        return _share(request, mounts)
    with _alone(mounts, "devices"):
        connector = _connector(protocol, request, mounts)
        if request.verb == "connect":
            device = connector.connect_volume(dict(request.data))
            return BrickAnswer(connected=Connected(path=device["path"], device=_plain(device)))
        if request.verb == "extend":
            return BrickAnswer(size_bytes=_extended(connector.extend_volume(dict(request.data))))
        connector.disconnect_volume(
            dict(request.data), dict(request.device), force=not request.device, ignore_errors=not request.device
        )
    return BrickAnswer()


def _extended(size_bytes: int | None) -> int:
    """Return the size of a device. Raises: Refused: os-brick could not read it."""
    if not size_bytes:
        raise Refused("os-brick does not see the new size of the device")
    return size_bytes


# What this host can


def _abilities(request: BrickRequest) -> Abilities:
    shortfall = general_shortfall()
    if shortfall:
        return Abilities(kinds=dict.fromkeys(PROTOCOLS, shortfall))
    _set_up(None)
    from os_brick.initiator import connector

    found = connector.get_connector_properties(
        "", request.address, request.multipath, enforce_multipath=False, host=request.host or None
    )
    return Abilities(connector=_plain(found), kinds={kind: _shortfall(kind, found) for kind in PROTOCOLS})


def _shortfall(kind: str, connector: Mapping[str, Any]) -> str:
    """Return why this host cannot connect volumes of a kind; "": it can."""
    match kind:
        case "nfs":
            return "" if _has("mount.nfs") else "the program mount.nfs is missing: apt-get install nfs-common"
        case "iscsi" | "iser":
            if not _has("iscsiadm"):
                return "the program iscsiadm is missing: apt-get install open-iscsi"
            return "" if connector.get("initiator") else f"there is no name of an initiator in {ISCSI_NAME}"
        case "fibre_channel":
            adapters = FC_HOSTS.is_dir() and any(FC_HOSTS.iterdir())
            return "" if adapters else "there is no Fibre Channel adapter"
        case _:
            if not _has("nvme"):
                return "the program nvme is missing: apt-get install nvme-cli"
            return "" if FABRICS.exists() else "the kernel has no NVMe over Fabrics: modprobe nvme-tcp"


def _has(program: str) -> bool:
    return shutil.which(program) is not None or shutil.which(program, path=SYSTEM_PLACES) is not None


# Shares. os-brick mounts them and never unmounts them.


def _share(request: BrickRequest, mounts: Path) -> BrickAnswer:
    share, name = str(request.data["export"]), str(request.data["name"])
    if Path(name).name != name:
        raise Refused(f"{name!r} is not the name of a file of a share")
    if request.verb == "extend":
        raise Refused("a file of a share has no size in the kernel")
    with _alone(mounts, "shares"):
        connector = _connector(PROTOCOLS["nfs"], request, mounts)
        if request.verb == "disconnect":
            _unmount(Path(connector._remotefsclient.get_mount_point(share)))
            return BrickAnswer()
        path = Path(connector.connect_volume(dict(request.data))["path"])
        if not path.is_file() or path.is_symlink():
            raise Refused(f"the share {share} has no file {name}")
        return BrickAnswer(connected=Connected(path=str(path)))


def _unmount(mount_point: Path) -> None:
    """Ensure that a share is not mounted. Raises: Refused: it is in use, or its server is silent."""
    for tried in range(BUSY_TRIES):
        if not _is_mounted(mount_point):
            break
        done = subprocess.run(
            ["umount", str(mount_point)], capture_output=True, text=True, timeout=UMOUNT_S, check=False
        )
        if done.returncode and tried == BUSY_TRIES - 1:
            raise Refused(f"umount: {done.stderr.strip()}")
        if done.returncode:
            time.sleep(BUSY_S)  # a process that has just ended still has a file open
    if mount_point.is_dir():
        mount_point.rmdir()


def _is_mounted(path: Path) -> bool:
    """Check whether there is a mount, without touching its file system: its server may be silent."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return any(line.split()[1] == str(path) for line in mounts)


# os-brick


def _set_up(mounts: Path | None) -> None:
    import os_brick
    from os_brick import privileged
    from oslo_concurrency import lockutils
    from oslo_config import cfg

    privileged.default.set_client_mode(False)
    privileged.brick_privsep_hide_output.set_client_mode(False)
    cfg.CONF([], project="whimbrel", default_config_files=[], default_config_dirs=[])
    if mounts:
        mounts.mkdir(parents=True, exist_ok=True)
        mounts.chmod(file_modes.SEARCHABLE)
        locks = mounts / "locks"
        locks.mkdir(mode=file_modes.DIRECTORY, exist_ok=True)
        lockutils.set_defaults(str(locks))
    os_brick.setup(cfg.CONF)


def _connector(protocol: str, request: BrickRequest, mounts: Path) -> Any:
    from os_brick.initiator.connector import InitiatorConnector

    base = {"nfs_mount_point_base": str(mounts)} if protocol == "NFS" else {}
    return InitiatorConnector.factory(protocol, "", use_multipath=request.multipath, **base)


@contextmanager
def _alone(mounts: Path, name: str) -> Iterator[None]:
    """Wait until no other process of this program has this lock; the kernel releases it when a process ends."""
    with open(mounts / "locks" / name, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that JSON has; os-brick adds objects of its own to some."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(values), enc_hook=str))
    return plain
