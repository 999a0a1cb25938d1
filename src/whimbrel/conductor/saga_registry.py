"""All sagas of this program. A released saga stays, so that runs finish on the list on which they began."""

from whimbrel.moves.resize import MIGRATE, RESIZE
from whimbrel.moves.resize_1 import MIGRATE_1, RESIZE_1
from whimbrel.repair.service import REPAIR, REPAIR_1
from whimbrel.restore.restore import LOST_RUN
from whimbrel.saga.step import SagaRegistry
from whimbrel.servers.allocations.healing import HEAL_PORTS
from whimbrel.servers.cleanup.late_effects import CLEANUP
from whimbrel.servers.devices.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from whimbrel.servers.devices.volumes import ATTACH_VOLUME, DETACH_VOLUME
from whimbrel.servers.lifecycle.create import CREATE
from whimbrel.servers.lifecycle.create_image import SNAPSHOT
from whimbrel.servers.lifecycle.delete import DELETE
from whimbrel.servers.lifecycle.power import FOLLOW_POWER, REBOOT, START, STOP

KNOWN_BEFORE_0_2 = {
    **dict.fromkeys(("resize", "migrate", "repair"), (1, 2)),
    **dict.fromkeys(("create", "delete", "start", "stop", "reboot", "snapshot", "follow_power", "lost"), (1,)),
    **dict.fromkeys(("attach_interface", "detach_interface", "attach_volume", "detach_volume"), (1,)),
    **dict.fromkeys(("tidy", "heal_ports"), (1,)),
}
"""The lists of release 0.1, whose processes do not register what they know."""

SAGAS = SagaRegistry(
    *(RESIZE_1, MIGRATE_1, RESIZE, MIGRATE, CREATE, DELETE, START, STOP, REBOOT, SNAPSHOT),
    LOST_RUN,
    *(ATTACH_INTERFACE, DETACH_INTERFACE, ATTACH_VOLUME, DETACH_VOLUME, CLEANUP, HEAL_PORTS, FOLLOW_POWER),
    *(REPAIR_1, REPAIR),
)
