"""os-instance_usage_audit_log: which hosts have sent notifications of what existed on them in the last month.

No host here sends any. As in a Nova with cells, which looks for hosts only outside of them, there are no hosts in the
log. A conductor accounts for the servers of all hosts, see notifications/usage_audits.py.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Invalid


async def index(call: Call) -> Any:
    now = datetime.fromtimestamp(call.cloud.clock.now(), UTC).replace(tzinfo=None)
    return {"instance_usage_audit_logs": _log(now)}


async def show(call: Call) -> Any:
    text = call.params["before"]
    try:
        before = datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f" if "." in text else "%Y-%m-%d %H:%M:%S")
        return {"instance_usage_audit_log": _log(before)}
    except (ValueError, OverflowError):
        raise Invalid(f"Invalid timestamp for date {text[:100]}") from None


def _log(before: datetime) -> dict[str, Any]:
    """Return the log of the last whole month before a time. Raises: OverflowError: there is none."""
    end = before.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    begin = (end - timedelta(days=1)).replace(day=1)
    return {
        "period_beginning": str(begin),
        "period_ending": str(end),
        "num_hosts": 0,
        "num_hosts_done": 0,
        "num_hosts_running": 0,
        "num_hosts_not_run": 0,
        "hosts_not_run": [],
        "total_instances": 0,
        "total_errors": 0,
        "overall_status": "ALL hosts done. 0 errors.",
        "log": {},
    }
