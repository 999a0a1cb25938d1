"""An operator of a simulated cloud: evacuates the servers of hosts that are away, readmits hosts that return, and
empties hosts for maintenance.

The operator declares a host dead only if it has no power. A host that is cut off may still run: there only its fence
device is evidence.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from whimbrel.domain.ids import HostName
from whimbrel.sim.cloud.processes import Answer, Staff
from whimbrel.sim.record.trace import Trace

ASKS_EVERY_S = 15.0
ENDPOINT = "door1"
MAINTENANCES = "/whimbrel/maintenances"
OVER = ("done", "aborted")
MOST_TRIES = 60
"""How often an operator requests a change of a maintenance until it is left as it is."""


class Operator:
    def __init__(self, staff: Staff, trace: Trace) -> None:
        self._staff = staff
        self._trace = trace

    async def evacuate(self, host: HostName, *, is_dead: bool) -> None:
        """Request the evacuation of all servers of a host repeatedly, until cancelled."""
        forced = not is_dead
        while True:
            forced = forced or await self._force_down(host, True)
            listed = await self._ask("GET", f"/servers?all_tenants=1&host={host}")
            for server in listed.body["servers"] if listed.status == 200 else ():
                await self._evacuate_server(server["id"], host)
            await asyncio.sleep(ASKS_EVERY_S)

    async def readmit(self, host: HostName) -> None:
        """Declare repeatedly that a host is not dead, until the declaration is accepted."""
        while True:
            if await self._force_down(host, False):
                return
            await asyncio.sleep(ASKS_EVERY_S)

    async def maintain(self, where: str, plan: str, after_s: float) -> None:
        """Plan and start a maintenance; some time after the start, pause or abort it. See PLANS.

        where: a host to be emptied, or a goal and its hosts, as "pack h1+h2".
        """
        goal, hosts = where.split() if " " in where else ("empty", where)
        wanted = {"hosts": hosts.split("+"), "goal": goal}
        asked = {"maintenance": {**wanted, "allow_downtime": True, "at_once": 2, "most_failed": 1}}
        for _ in range(MOST_TRIES):
            planned = await self._ask("POST", MAINTENANCES, asked)
            self._trace.tally.asked("plan maintenance", planned.status)
            if planned.status == 201:
                return await self._execute(planned.body["maintenance"]["id"], plan, after_s)
            await asyncio.sleep(ASKS_EVERY_S)
        return None

    async def _execute(self, maintenance: str, plan: str, after_s: float) -> None:
        await self.change(maintenance, "start", lambda state: state != "planned")
        await asyncio.sleep(after_s)
        if plan == "aborted":
            await self.change(maintenance, "abort", lambda state: state in ("aborting", *OVER))
        elif plan == "paused":
            await self.change(maintenance, "pause", lambda state: state != "running")
            await asyncio.sleep(after_s)
            await self.change(maintenance, "resume", lambda state: state != "paused")

    async def change(self, maintenance: str, action: str, is_so: Callable[[str], bool]) -> None:
        """Request an action until the maintenance has such a state: an answer may be lost."""
        url = f"{MAINTENANCES}/{maintenance}"
        for _ in range(MOST_TRIES):
            found = await self._ask("GET", url)
            if found.status == 200 and is_so(found.body["maintenance"]["state"]):
                return
            if found.status == 200:
                answer = await self._ask("POST", f"{url}/action", {action: None})
                self._trace.tally.asked(f"{action} maintenance", answer.status)
                self._trace.tell(self._staff.loop.time(), "operator", f"{action} of a maintenance: {answer.status}")
            await asyncio.sleep(1.0)

    async def _force_down(self, host: HostName, is_down: bool) -> bool:
        """Return whether it was accepted."""
        found = await self._ask("GET", f"/os-services?host={host}")
        if found.status != 200:
            return False
        [service] = found.body["services"]
        return (await self._ask("PUT", f"/os-services/{service['id']}", {"forced_down": is_down})).status == 200

    async def _evacuate_server(self, server: str, host: HostName) -> None:
        answer = await self._ask("POST", f"/servers/{server}/action", {"evacuate": {}})
        if answer.status == 200:
            self._trace.tally.asked("evacuate", answer.status)
            name = self._staff.names.of(server)
            self._trace.tell(self._staff.loop.time(), "operator", f"evacuates {name} from {host}")

    async def _ask(self, method: str, path: str, body: Any = None) -> Answer:
        return await self._staff.ask(ENDPOINT, method, path, body, who="admin")
