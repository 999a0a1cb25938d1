"""The part of the store that is about server groups only."""

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.placement import group_members
from whimbrel.domain.ids import GroupId, ProviderId
from whimbrel.ports.placement.placement import GroupPlaces


class GroupStore:
    """Fulfils what ports.placement.Placement says of groups."""

    _db: Database

    async def group_places(self, group: GroupId) -> GroupPlaces:
        async with self._db.read() as tx:
            return await group_members.read(tx, group)

    async def move_group(self, group: GroupId, to: ProviderId | None, now: float) -> None:
        async with self._db.write() as tx:
            await group_members.move(tx, group, to, now)

    async def rest_groups(self, before: float) -> None:
        async with self._db.write() as tx:
            await group_members.rest(tx, before)

    async def forget_group(self, group: GroupId) -> None:
        async with self._db.write() as tx:
            await group_members.forget(tx, group)
