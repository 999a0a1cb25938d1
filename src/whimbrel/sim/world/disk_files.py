"""Image files of simulated disks: valid qcow2 images without data, with the disk's record in a header extension.

Programs skip extensions that they do not know, so such an image is an empty disk of the right size to QEMU and Glance.
Releases until 0.2 wrote files of another form and declared them as qcow2 too; these are read as well.

Source: QEMU's docs/interop/qcow2: header of version 3, extensions, refcounts.
"""

import struct

import msgspec

from whimbrel.sim.world.disks import Disk

LARGEST_FILE_BYTES = 512 << 10
"""Larger files are no simulated disks."""

_LARGEST_DISK_BYTES = 1 << 44  # the header says no more; the record has the true size
_OLD_MAGIC = b"whimbrel simulated disk\n"
_MAGIC, _VERSION = b"QFI\xfb", 3
_HEADER = struct.Struct(">4sIQIIQIIQQIIQQQQII")
_EXTENSION = struct.Struct(">II")  # type, length; the data are padded to 8 bytes
_RECORD, _END = 0x57484942, 0
_TABLES = 3  # clusters before the L1 table: header, refcount table, refcount block
_REFCOUNT_ORDER = 4  # 16 bits


def to_file(disk: Disk) -> bytes:
    """Return a disk as an image file of a few clusters."""
    size = min(-(-disk.size_bytes // 512) * 512, _LARGEST_DISK_BYTES)
    bits = min(range(12, 19), key=lambda bits: _file_bytes(size, bits))
    cluster, entries = 1 << bits, _l1_entries(size, bits)
    record = msgspec.json.encode(disk)
    header = _HEADER.pack(
        _MAGIC, _VERSION, 0, 0, bits, size, 0, entries, _TABLES * cluster if entries else 0, cluster, 1,
        0, 0, 0, 0, 0, _REFCOUNT_ORDER, _HEADER.size,
    )  # fmt: skip
    header += _EXTENSION.pack(_RECORD, len(record)) + record + bytes(-len(record) % 8) + _EXTENSION.pack(_END, 0)
    assert len(header) <= cluster, "the record fits into the first cluster"
    clusters = _TABLES + -(-8 * entries // cluster)
    refcounts = struct.pack(f">{clusters}H", *[1] * clusters)
    blocks = (header, struct.pack(">Q", 2 * cluster), refcounts)
    return b"".join(block.ljust(cluster, b"\0") for block in blocks) + bytes(8 * entries)


def from_file(file: bytes) -> Disk | None:
    """Return the disk in an image file, or None if the file is not a simulated disk."""
    if file.startswith(_OLD_MAGIC):
        return msgspec.json.decode(file.removeprefix(_OLD_MAGIC), type=Disk)
    if not file.startswith(_MAGIC) or len(file) < _HEADER.size + _EXTENSION.size:
        return None
    kind, length = _EXTENSION.unpack_from(file, _HEADER.size)
    if kind != _RECORD:
        return None
    at = _HEADER.size + _EXTENSION.size
    return msgspec.json.decode(file[at : at + length], type=Disk)


def _file_bytes(size_bytes: int, bits: int) -> int:
    return (_TABLES << bits) + 8 * _l1_entries(size_bytes, bits)


def _l1_entries(size_bytes: int, bits: int) -> int:
    """Return the number of L2 tables, each a cluster of 8-byte entries, that a disk of this size has."""
    return -(-size_bytes // (1 << 2 * bits - 3))
