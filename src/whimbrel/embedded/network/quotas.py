"""Quotas: always unlimited."""

from whimbrel.embedded.network.request import Ask, forbidden
from whimbrel.http.reply import Reply

UNLIMITED = -1
RESOURCES = ("network", "subnet", "port", "security_group", "security_group_rule")


async def show(ask: Ask) -> Reply:
    """Show the quota of a project; those of others for administrators only."""
    if not (ask.is_admin or ask.path("id") == ask.principal.project_id):
        raise forbidden("rule:get_quota")
    return Reply({"quota": dict.fromkeys(RESOURCES, UNLIMITED)})
