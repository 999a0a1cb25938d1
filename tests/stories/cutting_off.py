"""An operation whose process dies at some touch, and databases from before it that are put back then."""

from collections.abc import Collection

from tools.scenarios import restored
from tools.scenarios.incarnations import Incarnations
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Crash


class CutOff(Incarnations):
    """Mixed into the class that runs a scenario."""

    async def until_it_dies(self, which: Collection[str]) -> World:
        """Return the cloud after a start with copies of these kinds of databases (global, cell, placement)."""
        await self.set_the_scene()
        databases = self.world.remains.databases
        copies = {name: databases[name].copy() for name in databases if name.split("_")[0] in which}
        _, cloud, engine = self.next_incarnation()
        try:
            await self.move(cloud, engine)
            await self._finish()
        except Crash:
            pass
        return restored._with(self.world, copies)
