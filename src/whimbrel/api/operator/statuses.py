"""The status of the cloud, for operators: /v2.1/whimbrel/status is Whimbrel's own part of the API."""

import msgspec

from whimbrel.api.http.call import Call
from whimbrel.api.views.status import SettingsAnswer, Status, StatusAnswer
from whimbrel.status.cloud_status import read_status


async def show_settings(call: Call) -> SettingsAnswer:
    """Return the rules of this process, by their tables. They contain no secrets and no addresses."""
    return SettingsAnswer(msgspec.to_builtins(call.cloud.rules))


async def show(call: Call) -> StatusAnswer:
    """Return what is wrong in the cloud now, the errors first. Changes nothing."""
    context = call.context
    found = await read_status(call.cloud, context.bus.problem, context.certificates())
    return StatusAnswer(msgspec.convert(msgspec.to_builtins(found) | {"ok": found.is_fine}, Status))
