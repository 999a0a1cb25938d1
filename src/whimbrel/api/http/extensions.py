"""Extensions: old clients read this list before they use a feature."""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import NotFound

UPDATED = "2014-12-03T00:00:00Z"

NAMES: dict[str, str] = {
    "os-admin-actions": "AdminActions",
    "os-aggregates": "Aggregates",
    "os-availability-zone": "AvailabilityZone",
    "os-extended-server-attributes": "ExtendedServerAttributes",
    "os-flavor-access": "FlavorAccess",
    "os-flavor-extra-specs": "FlavorExtraSpecs",
    "os-flavor-manage": "FlavorManage",
    "os-hypervisors": "Hypervisors",
    "os-instance-actions": "InstanceActions",
    "os-keypairs": "Keypairs",
    "os-lock-server": "LockServer",
    "os-migrate-server": "MigrateServer",
    "os-migrations": "Migrations",
    "os-quota-class-sets": "QuotaClasses",
    "os-quota-sets": "Quotas",
    "os-server-tags": "ServerTags",
    "os-services": "Services",
}


def _shown(alias: str) -> dict[str, Any]:
    name = NAMES[alias]
    return {"alias": alias, "name": name, "description": name, "namespace": "", "updated": UPDATED, "links": []}


async def index(call: Call) -> Any:
    return {"extensions": [_shown(alias) for alias in NAMES]}


async def show(call: Call) -> Any:
    alias = call.params["alias"]
    if alias not in NAMES:
        raise NotFound(f"There is no extension {alias}.")
    return {"extension": _shown(alias)}
