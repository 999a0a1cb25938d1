"""GET /limits: the limits and the usage of a project, under the names of this URL.

Source: reference of Nova 34, section 2.4.
"""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.domain.ids import ProjectId
from whimbrel.moves import quota_checks

# (name here, name of the quota, last version that shows it)
_ABSOLUTE: tuple[tuple[str, str, int | None], ...] = (
    ("maxTotalInstances", "instances", None),
    ("maxTotalCores", "cores", None),
    ("maxTotalRAMSize", "ram", None),
    ("maxServerMeta", "metadata_items", None),
    ("maxImageMeta", "metadata_items", 38),
    ("maxPersonality", "injected_files", 56),
    ("maxPersonalitySize", "injected_file_content_bytes", 56),
    ("maxTotalKeypairs", "key_pairs", None),
    ("maxServerGroups", "server_groups", None),
    ("maxServerGroupMembers", "server_group_members", None),
    ("maxTotalFloatingIps", "floating_ips", 35),
    ("maxSecurityGroups", "security_groups", 35),
    ("maxSecurityGroupRules", "security_group_rules", 35),
)


async def index(call: Call) -> Any:
    project = call.principal.project_id
    if (other := call.value("tenant_id")) is not None:
        call.check("os_compute_api:limits:other_project")
        project = ProjectId(other)
    quotas, usage = await call.cloud.quotas.shown(project), await quota_checks.usage(call.cloud, project)
    absolute = {name: quotas[quota] for name, quota, last in _ABSOLUTE if last is None or call.minor <= last}
    absolute |= {
        "totalInstancesUsed": usage.instances,
        "totalCoresUsed": usage.cores,
        "totalRAMUsed": usage.ram_mib,
        "totalServerGroupsUsed": await call.cloud.server_groups.count(project),
    }
    if call.minor <= 35:
        absolute |= {"totalFloatingIpsUsed": 0, "totalSecurityGroupsUsed": 0}
    return {"limits": {"rate": [], "absolute": absolute}}
