"""The options of a simulation: what is assumed of links and guests."""

from dataclasses import dataclass

from cyclopts import Parameter

LINK_MIB_S, DIRTY_MIB_S = 1000.0, 50.0
"""Assumed where nothing was measured: most of a link of 10 Gbit/s, and a guest with moderate load."""


@Parameter(name="*")
@dataclass(frozen=True)
class Assume:
    link_mib_s: float | None = None
    "Speed of the link of each host, in each direction; its transfers share it. Default: as measured, or 1000."
    dirty_mib_s: float | None = None
    "MiB that each running guest writes to its memory per second. Default: as measured, or 50."
    start_s: float = 5.0
    "Seconds that a guest takes to start, after a cold move."
    stop_s: float = 10.0
    "Seconds that a guest takes to stop, before a cold move."
