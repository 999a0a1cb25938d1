"""Every saga that this program knows. A released one stays, so that runs finish on the list on which they started."""

from whimbrel.moves.resize import MIGRATE, RESIZE
from whimbrel.restore.service import LOST_RUN
from whimbrel.saga.step import Book
from whimbrel.servers.create import CREATE
from whimbrel.servers.delete import DELETE
from whimbrel.servers.heal import HEAL_PORTS
from whimbrel.servers.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from whimbrel.servers.power import FOLLOW_POWER, REBOOT, START, STOP
from whimbrel.servers.repair import REPAIR, REPAIR_1
from whimbrel.servers.snapshot import SNAPSHOT
from whimbrel.servers.tidy import TIDY
from whimbrel.servers.volumes import ATTACH_VOLUME, DETACH_VOLUME

BOOK = Book(
    *(RESIZE, MIGRATE, CREATE, DELETE, START, STOP, REBOOT, SNAPSHOT),
    LOST_RUN,
    *(ATTACH_INTERFACE, DETACH_INTERFACE, ATTACH_VOLUME, DETACH_VOLUME, TIDY, HEAL_PORTS, FOLLOW_POWER),
    *(REPAIR_1, REPAIR),
)
