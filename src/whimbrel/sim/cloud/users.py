"""Users of a simulated cloud: they send random, concurrent API requests and check the responses.

They know only the servers that they created. Many of their requests are impossible, as in production.
"""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from whimbrel.domain.ids import HostName
from whimbrel.sim.cloud.cloud import IMAGE, LARGE, SMALL
from whimbrel.sim.cloud.fixture import DIRECT_PORTS, GROUPS, PORTS, ROOMIER, ROOMY, SWAPPING, VOLUMES, WIDE
from whimbrel.sim.cloud.processes import Answer, Staff
from whimbrel.sim.cloud.volume_service import VolumeService
from whimbrel.sim.faults.planned_events import VOLUME_ACTS, Act, Size
from whimbrel.sim.record.trace import Trace
from whimbrel.sim.world import equipment

Body = dict[str, Any]

RESIZES = {
    SMALL.name: (LARGE, WIDE),
    LARGE.name: (WIDE, WIDE, SMALL),
    WIDE.name: (LARGE,),
    ROOMY.name: (ROOMIER, SWAPPING),
    ROOMIER.name: (SWAPPING, SWAPPING, ROOMY),
    SWAPPING.name: (ROOMIER,),
}
"""Current flavor -> flavors to resize to. Shrinking the disk, which is refused, is rare."""


class Users:
    def __init__(self, staff: Staff, trace: Trace, servers: list[str], size: Size) -> None:
        self._staff = staff
        self._trace = trace
        self._servers = servers
        self._endpoints = [name for name in size.processes if "door" in name]
        self._ports = [*PORTS, *DIRECT_PORTS] if size.functions else PORTS
        self._groups = GROUPS if size.groups else ()
        self.volume_service = VolumeService(staff.world.remains.volumes, self._ask)
        self.problems: list[str] = []
        self.deleted: set[str] = set()  # servers with a delete request, whatever the response
        self.shelved: set[str] = set()  # servers with a shelve request, whatever the response

    async def act(self, act: Act) -> None:
        """Send one request. `pick` chooses its subject among what exists."""
        if act.what == "create":
            return await self._create(act)
        if act.what in VOLUME_ACTS:
            return await self.volume_service.act(act)
        server = self._server(act)
        if act.what in _SOUGHT:
            server = await self._sought(act, _SOUGHT[act.what]) or (server if act.pick % 4 == 0 else "")
            if not server:
                return None  # no server fits
        if act.what in _ACTIONS:
            await self._do(act, server, _ACTIONS[act.what])
        else:
            await _ASKS[act.what](self, act, server)
        return None

    # Requests

    async def _create(self, act: Act) -> None:
        rng = Random(act.pick)
        server: Body = {"name": f"new{len(self._servers)}", "flavorRef": rng.choice((SMALL, LARGE, ROOMY)).flavor_id}
        server["networks"] = rng.choice(("none", [{"uuid": equipment.NETWORK}], [{"port": rng.choice(self._ports)}]))
        server |= rng.choice(({"imageRef": IMAGE}, *_DISKS))
        body: Body = {"server": server}
        if self._groups and rng.random() < 0.6:
            body["os:scheduler_hints"] = {"group": rng.choice(self._groups)}
        answer = await self._ask(act, "POST", "/servers", body)
        if answer.status == 202:
            self._servers.append(answer.body["server"]["id"])
            self._staff.names.of(self._servers[-1])

    async def _delete(self, act: Act, server: str) -> None:
        self.deleted.add(server)
        await self._ask(act, "DELETE", f"/servers/{server}", about=server)

    async def _do(self, act: Act, server: str, body: Body, who: str = "member") -> None:
        await self._ask(act, "POST", f"/servers/{server}/action", body, who=who, about=server)

    async def _resize(self, act: Act, server: str) -> None:
        found = await self._look(act, f"/servers/{server}")
        has = found["server"]["flavor"]["original_name"] if found else ""
        others = RESIZES.get(has, (LARGE,))
        other = others[act.pick // 7 % len(others)]
        await self._do(act, server, {"resize": {"flavorRef": other.flavor_id}})

    async def _migrate(self, act: Act, server: str) -> None:
        host = self._host(act)
        await self._do(act, server, {"migrate": {"host": host} if host else None}, who="admin")

    async def _migrate_live(self, act: Act, server: str) -> None:
        host = self._host(act)
        await self._do(act, server, {"os-migrateLive": {"host": host, "block_migration": "auto"}}, who="admin")

    async def _abort_live(self, act: Act, server: str) -> None:
        path = f"/servers/{server}/migrations"
        found = await self._look(act, path, who="admin")
        for one in (found or {}).get("migrations", ())[:1]:
            await self._ask(act, "DELETE", f"{path}/{one['id']}", who="admin", about=server)

    async def _turn_back(self, act: Act, server: str) -> None:
        found = await self._look(act, "/whimbrel/moves?open=true", who="admin")
        going = (found or {"moves": []})["moves"]
        if going:
            move = going[act.pick // 7 % len(going)]
            path = f"/whimbrel/moves/{move['id']}/action"
            await self._ask(act, "POST", path, {"turn_back": None}, who="admin", about=move["server_id"])

    async def _reboot(self, act: Act, server: str) -> None:
        await self._do(act, server, {"reboot": {"type": "HARD" if act.pick // 7 % 2 else "SOFT"}})

    async def _shelve(self, act: Act, server: str) -> None:
        self.shelved.add(server)
        await self._do(act, server, {"shelve": None})

    async def _unshelve(self, act: Act, server: str) -> None:
        host = self._host(act)
        await self._do(act, server, {"unshelve": {"host": host} if host else None}, who="admin" if host else "member")

    async def _attach_port(self, act: Act, server: str) -> None:
        pick = act.pick // 7
        requested = (
            {"net_id": equipment.NETWORK} if pick % 2 else {"port_id": self._ports[pick // 2 % len(self._ports)]}
        )
        await self._ask(
            act, "POST", f"/servers/{server}/os-interface", {"interfaceAttachment": requested}, about=server
        )

    async def _detach_port(self, act: Act, server: str) -> None:
        await self._detach(act, server, "os-interface", "interfaceAttachments", "port_id")

    async def _attach_volume(self, act: Act, server: str) -> None:
        requested = {"volumeId": VOLUMES[act.pick // 7 % len(VOLUMES)]}
        path = f"/servers/{server}/os-volume_attachments"
        await self._ask(act, "POST", path, {"volumeAttachment": requested}, about=server)

    async def _detach_volume(self, act: Act, server: str) -> None:
        await self._detach(act, server, "os-volume_attachments", "volumeAttachments", "volumeId")

    # Selection and sending

    async def _detach(self, act: Act, server: str, path: str, listed: str, id_: str) -> None:
        found = await self._look(act, f"/servers/{server}/{path}")
        ids = [one[id_] for one in (found or {}).get(listed, ())]
        if ids:
            await self._ask(act, "DELETE", f"/servers/{server}/{path}/{ids[act.pick // 7 % len(ids)]}", about=server)

    def _host(self, act: Act) -> HostName | None:
        """Return the host that a request names, in one of three acts; None: the scheduler chooses."""
        hosts = list(self._staff.world.hypervisors)
        return hosts[act.pick // 21 % len(hosts)] if act.pick // 7 % 3 == 0 else None

    def _server(self, act: Act) -> str:
        return self._servers[act.pick % len(self._servers)]

    async def _sought(self, act: Act, status: str) -> str | None:
        """Find a server with this status, as its owner would."""
        found = await self._look(act, f"/servers?status={status}&limit=5")
        waiting = [one["id"] for one in (found or {}).get("servers", ())]
        return waiting[act.pick % len(waiting)] if waiting else None

    async def _look(self, act: Act, path: str, who: str = "member") -> Any:
        answer = await self._send(act, "GET", path, None, who)
        return answer.body if answer.status == 200 else None

    async def _ask(
        self, act: Act, method: str, path: str, body: Any = None, who: str = "member", about: str = ""
    ) -> Answer:
        loop = self._staff.loop
        name = self._staff.names.of(about) if about else ""
        self._trace.tell(loop.time(), "user", f"{act.what} {name}".rstrip() + ", asked for")
        answer = await self._send(act, method, path, body, who)
        said = f"{answer.status} {_message(answer)}".rstrip() if answer.status else "no answer"
        if answer.status in (200, 202, 204) and act.what == "create":
            name = self._staff.names.of(answer.body["server"]["id"])
        self._trace.tell(loop.time(), "user", f"{act.what} {name}".rstrip() + f": {said}")
        self._trace.tally.asked(act.what, answer.status)
        return answer

    async def _send(self, act: Act, method: str, path: str, body: Any, who: str) -> Answer:
        answer = await self._staff.ask(self._endpoints[act.pick // 3 % len(self._endpoints)], method, path, body, who)
        if answer.status == 500:
            self.problems.append(f"{method} {path} was answered by 500: {_message(answer)}")
        return answer


def _message(answer: Answer) -> str:
    if answer.status < 400 or not isinstance(answer.body, dict):
        return ""
    return str(next(iter(answer.body.values())).get("message", ""))[:160]


_SOUGHT = {
    "confirm": "VERIFY_RESIZE",
    "revert": "VERIFY_RESIZE",
    "start": "SHUTOFF",
    "abort live": "MIGRATING",
    "unshelve": "SHELVED_OFFLOADED",
    "unpause": "PAUSED",
    "resume": "SUSPENDED",
    "unrescue": "RESCUE",
    "restore server": "SOFT_DELETED",
}
"""Requests that are mostly sent for servers with this status only."""

_VOLUME = {"destination_type": "volume", "volume_size": 2, "delete_on_termination": True}
_LOCAL = {"uuid": IMAGE, "source_type": "image", "destination_type": "local", "boot_index": 0}
_DISKS = (
    {"imageRef": IMAGE, "block_device_mapping_v2": [_LOCAL, _VOLUME | {"source_type": "blank", "boot_index": -1}]},
    {"block_device_mapping_v2": [_VOLUME | {"source_type": "image", "uuid": IMAGE, "boot_index": 0}]},
)
"""Disks of servers besides those of their flavor: an additional volume, or a boot volume."""

_ACTIONS: dict[str, Body] = {
    "confirm": {"confirmResize": None},
    "revert": {"revertResize": None},
    "stop": {"os-stop": None},
    "start": {"os-start": None},
    "snapshot": {"createImage": {"name": "snapshot"}},
    "pause": {"pause": None},
    "unpause": {"unpause": None},
    "suspend": {"suspend": None},
    "resume": {"resume": None},
    "rebuild": {"rebuild": {"imageRef": IMAGE}},
    "rescue": {"rescue": None},
    "unrescue": {"unrescue": None},
    "restore server": {"restore": None},
}
"""Request -> body of the action, where the body is always the same."""

_ASKS: dict[str, Callable[[Users, Act, str], Awaitable[None]]] = {
    "delete": Users._delete,
    "resize": Users._resize,
    "migrate": Users._migrate,
    "migrate live": Users._migrate_live,
    "abort live": Users._abort_live,
    "turn back": Users._turn_back,
    "reboot": Users._reboot,
    "shelve": Users._shelve,
    "unshelve": Users._unshelve,
    "attach port": Users._attach_port,
    "detach port": Users._detach_port,
    "attach volume": Users._attach_volume,
    "detach volume": Users._detach_volume,
}
