"""The config drive of a slot as an ISO 9660 image, with Rock Ridge names for Linux and Joliet names for Windows."""

import io

import pycdlib

from whimbrel.adapters.libvirt.slots import SlotDirectory
from whimbrel.adapters.qemu import durable_files
from whimbrel.domain.config_drive import LABEL, ConfigDrive

ISO_LEVEL = 3  # names of up to 31 characters
FILE_MODE, DIRECTORY_MODE = 0o100444, 0o040555


def ensure(slot: SlotDirectory, drive: ConfigDrive | None) -> None:
    """Make the slot's file that of this drive, before the slot's spec names it. A file that is right is not written."""
    spec = slot.read_spec()
    if drive is None:
        slot.config_drive.unlink(missing_ok=True)
    elif not (spec and spec.config_drive == drive and slot.config_drive.exists()):
        durable_files.write(slot.config_drive, image_of(drive), slot.owner)


def image_of(drive: ConfigDrive) -> bytes:
    """Return the image. The places of its files depend on the drive only; its dates are those of the call."""
    iso = pycdlib.PyCdlib()
    iso.new(interchange_level=ISO_LEVEL, vol_ident=LABEL, joliet=3, rock_ridge="1.09")
    made: set[str] = set()
    for path, content in sorted(drive.contents.items()):
        _add_directories(iso, path, made)
        iso.add_fp(
            io.BytesIO(content),
            len(content),
            _iso_file(path),
            rr_name=path.rpartition("/")[2],
            joliet_path=f"/{path}",
            file_mode=FILE_MODE,
        )
    image = io.BytesIO()
    iso.write_fp(image)
    iso.close()
    return image.getvalue()


def _add_directories(iso: pycdlib.PyCdlib, path: str, made: set[str]) -> None:
    parts = path.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        directory = "/".join(parts[:depth])
        if directory not in made:
            made.add(directory)
            name = parts[depth - 1]
            iso.add_directory(_iso_path(directory), rr_name=name, joliet_path=f"/{directory}", file_mode=DIRECTORY_MODE)


def _iso_path(path: str) -> str:
    """Return the path in the characters of ISO 9660; systems show the other names."""
    return "/" + path.upper().replace("-", "_")


def _iso_file(path: str) -> str:
    """Return the path of a file with its version; a name without a dot gets one."""
    dot = "" if "." in path.rpartition("/")[2] else "."
    return f"{_iso_path(path)}{dot};1"
