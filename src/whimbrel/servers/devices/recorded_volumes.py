"""Whether a server uses an attachment, by its record: the volume service asks before a user deletes one."""

from collections.abc import Mapping

from whimbrel.domain.errors import NotFound, Unavailable
from whimbrel.domain.ids import CellName, ServerId
from whimbrel.ports.cloud import Cell
from whimbrel.ports.stores.directory import Directory


class RecordedVolumes:
    """Implements ports.services.volume_users.VolumeUsers. A server in creation or change may use any attachment."""

    def __init__(self, directory: Directory, cells: Mapping[CellName, Cell]) -> None:
        self._directory = directory
        self._cells = cells

    async def uses(self, server: ServerId, attachment_id: str) -> bool:
        entry = (await self._directory.entries([server])).get(server)
        if entry is None or entry.deleted_at is not None:
            return False
        if entry.cell is None:
            return True
        if entry.cell not in self._cells:
            raise Unavailable(f"cell {entry.cell}, which has server {server}, is not open here")
        servers = self._cells[entry.cell].servers
        held = (await servers.holds([server])).get(server)
        try:
            record = await servers.get(server)
        except NotFound:
            return True
        return held is None or held.run is not None or attachment_id in {one.attachment_id for one in record.volumes}
