"""Volume exports of simulated hosts: only the names are returned, nothing is served."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from whimbrel.ports.embedded.volume_backing import Export

KIND = "simulated"


class SimulatedExports:
    """Implements ports.embedded.volume_backing.VolumeExports."""

    def __init__(self) -> None:
        self.served: dict[str, Export] = {}
        self._is_begun = False

    async def reach(self, name: str) -> dict[str, Any]:
        return {"driver_volume_type": KIND, "data": {"export": name}}

    async def open(self, export: Export) -> dict[str, Any]:
        self.served[export.name] = export
        return await self.reach(export.name)

    async def close(self, name: str) -> None:
        self.served.pop(name, None)

    async def keep(self, wanted: Callable[[], Awaitable[Sequence[Export]]]) -> None:
        """Read them once: no process behind them can end, so they change only by `open` and `close`."""
        if not self._is_begun:
            self.served = {export.name: export for export in await wanted()} | self.served
            self._is_begun = True

    async def grow(self, exports: Sequence[Export], enlarge: Callable[[], Awaitable[None]]) -> None:
        await enlarge()

    async def copy(self, volume_id: str, source: Path, target: Path) -> bool:
        return False
