"""The processes of a cloud, for operators: Whimbrel's own part of the API, /v2.1/whimbrel/processes."""

import msgspec
from msgspec.structs import asdict

from whimbrel.api.http.call import Call
from whimbrel.api.views.processes import ListedProcess, Processes
from whimbrel.ports.stores import processes as store


async def index(call: Call) -> Processes:
    """List the processes of the cloud by role and start; dead ones of the last hour too."""
    return Processes(await listed(call.cloud.processes))


async def listed(processes: store.Processes) -> list[ListedProcess]:
    live = {each.id for each in await processes.live(store.LEASE_S)}
    return [
        msgspec.convert(asdict(each) | {"live": each.id in live, "parts": each.knows.parts}, ListedProcess)
        for each in sorted(await processes.all(), key=lambda process: (process.role, process.started_at))
    ]
