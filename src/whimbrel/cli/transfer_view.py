"""Output of a live migration's transfer, and of the copy of a disk."""

from whimbrel.api.views.moves import DiskCopy, Transfer
from whimbrel.cli.terminal import seconds

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def lines(transfer: Transfer) -> list[str]:
    """Return what was copied, how fast, and what is expected."""
    copied = [f"memory {_of(transfer.memory_processed, transfer.memory_total)}"]
    if transfer.disk_total:
        copied.append(f"disks {_of(transfer.disk_processed, transfer.disk_total)}")
    found = [f"copied: {', '.join(copied)} in {seconds(transfer.elapsed_s)}"]
    speed = f"rate: {_amount(transfer.rate)}/s; the guest writes {_amount(transfer.dirty_rate)}/s"
    if transfer.throttle_percent:
        speed += f", slowed down by {transfer.throttle_percent} %"
    found.append(speed)
    if transfer.pause_ms:
        found.append(f"pause at the switch-over: {seconds(transfer.pause_ms / 1000)}")
    if transfer.prediction:
        found.append(f"prediction: {transfer.prediction}")
    if transfer.rung:
        found.append(f"late: the policy has come to {transfer.rung}")
    return found


def disk_line(copy: DiskCopy) -> str:
    """Return how much of a disk was copied, and how fast."""
    size = f" of {_amount(copy.size_bytes)}" if copy.size_bytes else ""
    rate = f" at {_amount(copy.rate)}/s" if copy.rate is not None else ""
    return f"copied: disk {copy.disk} {copy.percent} %{size}{rate}"


def _of(part: int, total: int) -> str:
    return f"{_amount(part)} of {_amount(total)}"


def _amount(size: float) -> str:
    """Return an amount of bytes in the largest unit of which it has one."""
    unit = 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {UNITS[unit]}" if unit == 0 or size >= 10 else f"{size:.1f} {UNITS[unit]}"
