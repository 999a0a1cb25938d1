"""The config drive of a guest that a move defines: built from the server's record, as it is going to be.

A live transfer is the exception: the guest keeps the drive that it has.
"""

from msgspec.structs import replace

from whimbrel.domain.config_drive import ConfigDrive
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import Server
from whimbrel.guest_data.drive_files import drive_files
from whimbrel.guest_data.reading import describe
from whimbrel.moves.facts import Move, old_flavor_of, source_of, target_of
from whimbrel.moves.steps.home_cell import home_record
from whimbrel.moves.steps.volumes import devices_at_target
from whimbrel.ports.cloud import Cloud


async def at_target(move: Move, cloud: Cloud) -> ConfigDrive | None:
    """Return the drive of the target's guest. None: it has none."""
    facts, target = move.facts, target_of(move)
    if not facts.config_drive:
        return None
    if facts.source or facts.home:
        record = await home_record(move, cloud)
    else:
        record = await cloud.cell(target.cell).servers.get(ServerId(move.subject))
    nics, volumes = tuple(port.nic for port in facts.ports), tuple(devices_at_target(facts))
    changed = {"flavor": facts.new_flavor, "zone": target.zone, "nics": nics, "volumes": volumes, **facts.changes}
    return await _drive(replace(record, **changed), cloud)


async def at_source(move: Move, record: Server, cloud: Cloud) -> ConfigDrive | None:
    """Return the drive of the source's guest, as the record has it. None: it has none."""
    if not move.facts.config_drive:
        return None
    return await _drive(replace(record, flavor=old_flavor_of(move), zone=source_of(move).zone), cloud)


async def _drive(server: Server, cloud: Cloud) -> ConfigDrive:
    return ConfigDrive.of(drive_files(await describe(cloud, server)))
