"""Snapshots of volumes that a volume service makes with the help of the guest's host: no volume here needs that.

Nova needs a volume driver that keeps files on the host (NFS and the like). The embedded volume service makes its
snapshots itself, and volumes of other services are connected as block devices.
"""

from typing import Any, NoReturn

import msgspec

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Invalid, NotFound

REFUSAL = "Volume {} does not take snapshots with the help of a host: its volume service makes them."


async def create(call: Call) -> NoReturn:
    raise Invalid(REFUSAL.format(call.body["snapshot"]["volume_id"]))


async def delete(call: Call) -> NoReturn:
    try:
        info: Any = msgspec.json.decode(call.value("delete_info") or "")
    except msgspec.DecodeError as error:
        raise Invalid(f"delete_info is not JSON: {error}") from None
    if not (isinstance(info, dict) and isinstance(info.get("volume_id"), str)):
        raise Invalid("delete_info lacks volume_id.")
    raise NotFound(f"Snapshot {call.params['snapshot_id']} could not be found.")
