"""Schemas of quotas and limits.

Source: reference of Nova 34, section 2.4, and its list of the versions at which these schemas change.
"""

from whimbrel.api.http.schema import Body, Query
from whimbrel.api.schemas.parameters import ANY, BOOLEAN, Schema, many, obj, whole, wrapped

LIMIT = whole(-1)

CURRENT = ("instances", "cores", "ram", "metadata_items", "key_pairs", "server_groups", "server_group_members")
FILES = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
NETWORK = ("fixed_ips", "floating_ips", "security_groups", "security_group_rules")


def _limits(*names: str) -> dict[str, Schema]:
    return dict.fromkeys(names, LIMIT)


_FORCE: dict[str, Schema] = {"force": BOOLEAN}
_OLDEST = _limits(*CURRENT, *FILES, *NETWORK)

UPDATE = Body(
    {
        1: wrapped("quota_set", obj(_OLDEST | _FORCE)),
        36: wrapped("quota_set", obj(_limits(*CURRENT, *FILES) | _FORCE)),
        57: wrapped("quota_set", obj(_limits(*CURRENT) | _FORCE)),
    }
)
UPDATE_CLASS = Body(
    {
        1: wrapped("quota_class_set", obj(_OLDEST)),
        50: wrapped("quota_class_set", obj(_limits(*CURRENT, *FILES))),
        57: wrapped("quota_class_set", obj(_limits(*CURRENT))),
    }
)
OF_USER = Query({1: {"user_id": many(ANY)}}, strict_from=75)
LIMITS = Query({1: {"tenant_id": many(ANY)}}, strict_from=75)
