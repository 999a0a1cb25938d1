"""The volume service of a simulated cloud, as far as it needs a guest's host: migrations of volumes that are attached,
and snapshots of volumes that are files.

It does one thing with a volume at a time. What is refused it gives up at once; else it waits for the host's report.
Source: Cinder's migrate_volume, and its drivers of remote file systems.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from whimbrel.domain.errors import Refused
from whimbrel.sim.cloud.fixture import VOLUMES
from whimbrel.sim.cloud.processes import Answer
from whimbrel.sim.faults.planned_events import Act
from whimbrel.sim.world.volumes import SimulatedVolumes

ASSISTED = "/os-assisted-volume-snapshots"

WAITS_S = 600.0
"""How long the service waits for a host's part in a snapshot. As in Cinder."""
POLLS_S = 2.0

Ask = Callable[..., Awaitable[Answer]]


class VolumeService:
    def __init__(self, volumes: SimulatedVolumes, ask: Ask) -> None:
        """ask: sends a request to the compute API."""
        self._volumes = volumes
        self._ask = ask
        self._made = 0
        self._taken: dict[str, list[str]] = {}  # volume -> its snapshots, the oldest first
        self.given_up: set[str] = set()  # volumes of whose files a host may have done what the service does not know

    async def act(self, act: Act) -> None:
        """`pick` chooses among the volumes with which it can be done."""
        which = [volume_id for volume_id in VOLUMES if self._is_free(volume_id, act.what)]
        if which:
            await _ACTS[act.what](self, act, which[act.pick // 7 % len(which)])

    async def assist(self) -> None:
        """Make the snapshots that others ask for, of volumes that are files. Runs for ever."""
        self._volumes.taken_by_hosts |= set(VOLUMES)
        known: set[str] = set()
        while True:
            for snapshot in self._volumes.snapshots():
                is_news = snapshot.id not in {*known, *self._taken.get(snapshot.volume_id, ())}
                if is_news and snapshot.status == "creating":
                    known.add(snapshot.id)
                    await self._request_snapshot(Act(at=0.0, what="snapshot", pick=0), snapshot.volume_id, snapshot.id)
            await asyncio.sleep(POLLS_S)

    # What it does with a volume

    async def _migrate(self, act: Act, volume_id: str) -> None:
        target = self._new_id()
        self._volumes.begin_migration(volume_id, target)
        path = f"/servers/{self._server(volume_id)}/os-volume_attachments/{volume_id}"
        body = {"volumeAttachment": {"volumeId": target}}
        answer = await self._ask(act, "PUT", path, body, who="admin", about=self._server(volume_id))
        if answer.status != 202:
            await self._end_migration(volume_id, target)

    async def _end_migration(self, volume_id: str, target: str) -> None:
        with suppress(Refused):  # a host has the target: the request was taken, and it will report
            await self._volumes.complete_migration(volume_id, target, failed=True)

    async def _take_snapshot(self, act: Act, volume_id: str) -> None:
        snapshot_id = self._new_id()
        self._volumes.begin_snapshot(snapshot_id, volume_id)
        await self._request_snapshot(act, volume_id, snapshot_id)

    async def _request_snapshot(self, act: Act, volume_id: str, snapshot_id: str) -> None:
        self._taken.setdefault(volume_id, []).append(snapshot_id)
        file = self._volumes.file_after(volume_id, snapshot_id)
        info = {"snapshot_id": snapshot_id, "type": "qcow2", "new_file": file}
        body = {"snapshot": {"volume_id": volume_id, "create_info": info}}
        answer = await self._ask(act, "POST", ASSISTED, body, who="admin", about=self._server(volume_id))
        status = await self._ended(snapshot_id, "creating", answer)
        if status == "creating":
            await self._volumes.report_snapshot(snapshot_id, "creating", "error")
        if status != "available":
            self._taken[volume_id].remove(snapshot_id)
        if status != "available" and not _is_refused(answer):
            self.given_up.add(volume_id)

    async def _delete_snapshot(self, act: Act, volume_id: str) -> None:
        """Delete the oldest one: its changes go into the lowest file, or the active file takes in all below it."""
        snapshot_id, active = self._taken[volume_id][0], self._volumes.active_file(volume_id)
        file, lowest = self._volumes.file_after(volume_id, snapshot_id), self._volumes.lowest_files
        merge = (None, None) if file == active else (file, lowest.get(volume_id, volume_id))
        self._volumes.begin_deletion(snapshot_id)
        info = {"volume_id": volume_id, "type": "qcow2", "file_to_merge": merge[0], "merge_target_file": merge[1]}
        path = f"{ASSISTED}/{snapshot_id}?delete_info={msgspec.json.encode(info).decode()}"
        answer = await self._ask(act, "DELETE", path, who="admin", about=self._server(volume_id))
        status = await self._ended(snapshot_id, "deleting", answer)
        if status == "deleting":
            await self._volumes.report_snapshot(snapshot_id, "deleting", "error_deleting")
        elif status == "":
            self._taken[volume_id].remove(snapshot_id)
            lowest[volume_id] = file if file == active else lowest.get(volume_id, volume_id)

    async def _ended(self, snapshot_id: str, was: str, answer: Answer) -> str:
        """Return the status of a snapshot when a host has reported, or none will; "": it is deleted."""
        waited_s = WAITS_S if _is_refused(answer) else 0.0
        while (status := self._statuses().get(snapshot_id, "")) == was and waited_s < WAITS_S:
            await asyncio.sleep(POLLS_S)
            waited_s += POLLS_S
            if snapshot_id in self._statuses():
                await self._volumes.snapshot_details(snapshot_id)  # the service ends it when it has the report
        return status

    # What is there

    def _is_free(self, volume_id: str, what: str) -> bool:
        """Check whether this can be done with a volume now: it is attached, and nothing else is done with it."""
        statuses, taken = self._statuses(), self._taken.get(volume_id, ())
        is_busy = self._volumes.migrations().get(volume_id) == "migrating"
        is_busy = is_busy or any(statuses.get(one) in ("creating", "deleting") for one in taken)
        fits = {"migrate volume": not any(one.volume_id == volume_id for one in self._volumes.snapshots())}
        fits["delete volume snapshot"] = any(statuses.get(one) for one in taken[:1])
        return bool(self._server(volume_id)) and not is_busy and fits.get(what, True)

    def _server(self, volume_id: str) -> str:
        """Return the server to which a volume is attached, or ""."""
        using = (one for one, _ in self._volumes.everything() if one.volume_id == volume_id)
        return next((str(one.server) for one in using if one.status == "attached"), "")

    def _statuses(self) -> Mapping[str, str]:
        return {one.id: one.status for one in self._volumes.snapshots()}

    def _new_id(self) -> str:
        self._made += 1
        return f"77777777-7777-4777-9777-{self._made:012}"


def _is_refused(answer: Answer) -> bool:
    return answer.status >= 400


_ACTS: Mapping[str, Callable[[VolumeService, Act, str], Awaitable[Any]]] = {
    "migrate volume": VolumeService._migrate,
    "take volume snapshot": VolumeService._take_snapshot,
    "delete volume snapshot": VolumeService._delete_snapshot,
}
"""What it does -> how. See `planned_events.VOLUME_ACTS`."""
