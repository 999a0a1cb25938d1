"""The part of the store that is about the names of resource classes and traits only."""

from collections.abc import Collection

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.placement.resource_names import CLASSES, TRAITS
from whimbrel.placement.resource_names import standard_traits


class NameStore:
    """Fulfils what placement.store.Store says of names."""

    _db: Database

    async def known_classes(self, names: Collection[str]) -> set[str]:
        async with self._db.look() as tx:
            return await CLASSES.known(tx, names)

    async def known_traits(self, names: Collection[str]) -> set[str]:
        async with self._db.look() as tx:
            return await TRAITS.known(tx, names)

    async def resource_classes(self) -> list[str]:
        async with self._db.read() as tx:
            return await CLASSES.all(tx)

    async def create_resource_class(self, name: str) -> bool:
        async with self._db.write() as tx:
            return await CLASSES.add(tx, name)

    async def rename_resource_class(self, name: str, new_name: str) -> None:
        async with self._db.write() as tx:
            await CLASSES.rename(tx, name, new_name)

    async def delete_resource_class(self, name: str) -> None:
        async with self._db.write() as tx:
            await CLASSES.delete(tx, name)

    async def traits(self, *, associated: bool | None = None) -> list[str]:
        async with self._db.read() as tx:
            if associated is True:
                return sorted(await TRAITS.used(tx))
            names = standard_traits().union(await TRAITS.all(tx))
            return sorted(names - await TRAITS.used(tx) if associated is False else names)

    async def create_trait(self, name: str) -> bool:
        async with self._db.write() as tx:
            return await TRAITS.add(tx, name)

    async def delete_trait(self, name: str) -> None:
        async with self._db.write() as tx:
            await TRAITS.delete(tx, name)
