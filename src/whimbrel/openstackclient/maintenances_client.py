"""Maintenances, as the API has them, for the commands `openstack maintenance ...`."""

import time
from typing import Any

import msgspec
from osc_lib.exceptions import CommandError

from whimbrel.api.views.maintenances import MaintenanceAnswer, MaintenanceRow, MaintenanceRows, MaintenanceState
from whimbrel.openstackclient.session_api import SessionApi

URL = "/whimbrel/maintenances"
POLL_S = 1.0


class MaintenancesClient:
    """Raises, all calls: as SessionApi."""

    def __init__(self, api: SessionApi) -> None:
        self._api = api

    def maintenances(self) -> list[MaintenanceRow]:
        """Return maintenances, the newest first."""
        return self._rows().maintenances

    def maintenance(self, wanted: str) -> MaintenanceState:
        """Return a maintenance by its id, name or prefix of its id. Raises: CommandError: none, or several."""
        return self._read(self._id(wanted))

    def plan(self, asked: dict[str, Any]) -> MaintenanceState:
        return _decoded(self._api.post(URL, {"maintenance": asked}))

    def act(self, wanted: str, action: str, body: Any = None) -> MaintenanceState:
        """Send an action to a maintenance: start, pause, resume, abort."""
        return _decoded(self._api.post(f"{URL}/{self._id(wanted)}/action", {action: body}))

    def wait(self, found: MaintenanceState) -> MaintenanceState:
        """Return the maintenance once it is over or paused."""
        while not found.is_at_rest:
            time.sleep(POLL_S)
            found = self._read(found.id)
        return found

    def _read(self, maintenance_id: str) -> MaintenanceState:
        return _decoded(self._api.get(f"{URL}/{maintenance_id}"))

    def _rows(self) -> MaintenanceRows:
        return msgspec.convert(self._api.get(URL), MaintenanceRows)

    def _id(self, wanted: str) -> str:
        found = self._rows().matching(wanted)
        if not found:
            raise CommandError(f"No maintenance with a name or ID of '{wanted}' exists.")
        if len(found) > 1:
            candidates = ", ".join(f"{row.id} ({row.state})" for row in found)
            raise CommandError(f"More than one maintenance has the name or ID prefix '{wanted}': {candidates}")
        return found[0].id


def _decoded(answer: Any) -> MaintenanceState:
    return msgspec.convert(answer, MaintenanceAnswer).maintenance
