"""The real time, and ids by chance."""

import asyncio
import time
from uuid import uuid4


class SystemClock:
    """Fulfils ports.clock.Clock."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RandomIds:
    """Fulfils ports.clock.IdSource."""

    def uuid(self) -> str:
        return str(uuid4())
