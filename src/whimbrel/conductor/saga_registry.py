"""All sagas of this program. A released saga stays, so that runs finish on the list on which they began."""

from whimbrel.moves.evacuate import EVACUATE
from whimbrel.moves.live_migrate import LIVE_MIGRATE
from whimbrel.moves.resize import MIGRATE, RESIZE
from whimbrel.moves.resize_1 import MIGRATE_1, RESIZE_1
from whimbrel.moves.unshelve import UNSHELVE
from whimbrel.repair.service import REPAIR, REPAIR_1, REPAIR_2, REPAIR_3
from whimbrel.restore.restore import LOST_RUN
from whimbrel.saga.step import SagaRegistry
from whimbrel.servers.allocations.healing import HEAL_PORTS
from whimbrel.servers.cleanup.late_effects import CLEANUP
from whimbrel.servers.devices.file_snapshots import MERGE_VOLUME_FILES, TAKE_VOLUME_SNAPSHOT
from whimbrel.servers.devices.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from whimbrel.servers.devices.lists_1 import LISTS_1
from whimbrel.servers.devices.volume_changes import CHANGE_VOLUME
from whimbrel.servers.devices.volume_extensions import EXTEND_VOLUME
from whimbrel.servers.devices.volume_swaps import SWAP_VOLUME
from whimbrel.servers.devices.volumes import ATTACH_VOLUME, DETACH_VOLUME
from whimbrel.servers.lifecycle.change_password import CHANGE_PASSWORD
from whimbrel.servers.lifecycle.crash_dump import TRIGGER_CRASH_DUMP
from whimbrel.servers.lifecycle.create import CREATE
from whimbrel.servers.lifecycle.create_1 import CREATE_1
from whimbrel.servers.lifecycle.create_backup import BACKUP
from whimbrel.servers.lifecycle.create_image import SNAPSHOT
from whimbrel.servers.lifecycle.delete import DELETE
from whimbrel.servers.lifecycle.delete_1 import DELETE_1
from whimbrel.servers.lifecycle.image_of_volumes import SNAPSHOT_VOLUMES
from whimbrel.servers.lifecycle.pausing import PAUSE, RESUME, SUSPEND, UNPAUSE
from whimbrel.servers.lifecycle.power import FOLLOW_POWER, REBOOT, START, STOP
from whimbrel.servers.lifecycle.rebuild import REBUILD
from whimbrel.servers.lifecycle.rescue import RESCUE, UNRESCUE
from whimbrel.servers.lifecycle.shelve import SHELVE, SHELVE_OFFLOAD, UNSHELVE_IN_PLACE
from whimbrel.servers.lifecycle.soft_delete import RESTORE, SOFT_DELETE

KNOWN_BEFORE_0_2 = {
    **dict.fromkeys(("resize", "migrate", "repair"), (1, 2)),
    **dict.fromkeys(("create", "delete", "start", "stop", "reboot", "snapshot", "follow_power", "lost"), (1,)),
    **dict.fromkeys(("attach_interface", "detach_interface", "attach_volume", "detach_volume"), (1,)),
    **dict.fromkeys(("tidy", "heal_ports"), (1,)),
}
"""The lists of release 0.1, whose processes do not register what they know."""

FACTS_ADDED = ("source_lost", "forced")
"""Facts of released lists that a process of an older release neither heeds nor keeps."""

SAGAS = SagaRegistry(
    *(RESIZE_1, MIGRATE_1, RESIZE, MIGRATE, CREATE_1, CREATE, DELETE_1, DELETE, START, STOP, REBOOT, SNAPSHOT),
    LIVE_MIGRATE,
    LOST_RUN,
    *LISTS_1,
    *(ATTACH_INTERFACE, DETACH_INTERFACE, ATTACH_VOLUME, DETACH_VOLUME, SWAP_VOLUME, CLEANUP, HEAL_PORTS, FOLLOW_POWER),
    *(CHANGE_VOLUME, EXTEND_VOLUME, TAKE_VOLUME_SNAPSHOT, MERGE_VOLUME_FILES),
    *(SHELVE, SHELVE_OFFLOAD, UNSHELVE_IN_PLACE, UNSHELVE),
    *(REPAIR_1, REPAIR_2, REPAIR_3, REPAIR),
    *(REBUILD, PAUSE, UNPAUSE, SUSPEND, RESUME),
    *(RESCUE, UNRESCUE, SOFT_DELETE, RESTORE, BACKUP, SNAPSHOT_VOLUMES, TRIGGER_CRASH_DUMP),
    EVACUATE,
    CHANGE_PASSWORD,
)
