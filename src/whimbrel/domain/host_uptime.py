"""The uptime of a host in the format of the program `uptime`, which clients of Nova parse."""

from collections.abc import Sequence
from datetime import UTC, datetime


def line(now: float, up_s: float, users: int, loads: Sequence[float]) -> str:
    """Return the line. now: seconds since 1970. loads: of the last 1, 5 and 15 minutes."""
    minutes = int(up_s // 60)
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    up = f"{days} day{'s' if days > 1 else ''}, " if days else ""
    up += f"{hours:2}:{minutes:02}" if hours else f"{minutes} min"
    time = datetime.fromtimestamp(now, UTC).strftime("%H:%M:%S")
    averages = ", ".join(f"{load:.2f}" for load in loads)
    return f" {time} up {up},  {users} user{'' if users == 1 else 's'},  load average: {averages}\n"
