"""The policy of Placement: one table of rules for each of its two sets of defaults.

Invariant: the sets differ in one point: with `legacy` administrators also have the permissions of services.

Source: the policy reference of Placement 16. Its deprecated rules, each "or an administrator", are included.
"""

from collections.abc import Mapping
from typing import Final, Literal

Defaults = Literal["legacy", "secure-rbac"]

ADMIN_OR_SERVICE: Final = "rule:admin_or_service_api"
SERVICE: Final = "rule:service_api"
READER: Final = "rule:admin_or_project_reader_or_service_api"

BASE_RULES: Final[Mapping[str, str]] = {
    "admin_api": "role:admin",
    "service_api": "role:service",
    "admin_or_service_api": "role:admin or role:service",
    "project_reader_api": "role:reader and project_id:%(project_id)s",
    "admin_or_project_reader_or_service_api": "role:admin or rule:project_reader_api or role:service",
}

RULES: Final[Mapping[str, str]] = {
    "placement:resource_classes:list": ADMIN_OR_SERVICE,
    "placement:resource_classes:create": ADMIN_OR_SERVICE,
    "placement:resource_classes:show": ADMIN_OR_SERVICE,
    "placement:resource_classes:update": ADMIN_OR_SERVICE,
    "placement:resource_classes:delete": ADMIN_OR_SERVICE,
    "placement:resource_providers:list": ADMIN_OR_SERVICE,
    "placement:resource_providers:create": ADMIN_OR_SERVICE,
    "placement:resource_providers:show": ADMIN_OR_SERVICE,
    "placement:resource_providers:update": ADMIN_OR_SERVICE,
    "placement:resource_providers:delete": ADMIN_OR_SERVICE,
    "placement:resource_providers:inventories:list": ADMIN_OR_SERVICE,
    "placement:resource_providers:inventories:create": ADMIN_OR_SERVICE,
    "placement:resource_providers:inventories:show": ADMIN_OR_SERVICE,
    "placement:resource_providers:inventories:update": ADMIN_OR_SERVICE,
    "placement:resource_providers:inventories:delete": ADMIN_OR_SERVICE,
    "placement:resource_providers:usages": ADMIN_OR_SERVICE,
    "placement:resource_providers:aggregates:list": ADMIN_OR_SERVICE,
    "placement:resource_providers:aggregates:update": ADMIN_OR_SERVICE,
    "placement:resource_providers:traits:list": ADMIN_OR_SERVICE,
    "placement:resource_providers:traits:update": ADMIN_OR_SERVICE,
    "placement:resource_providers:traits:delete": ADMIN_OR_SERVICE,
    "placement:resource_providers:allocations:list": ADMIN_OR_SERVICE,
    "placement:allocations:manage": ADMIN_OR_SERVICE,
    "placement:allocations:list": ADMIN_OR_SERVICE,
    "placement:allocations:update": ADMIN_OR_SERVICE,
    "placement:allocations:delete": ADMIN_OR_SERVICE,
    "placement:allocation_candidates:list": ADMIN_OR_SERVICE,
    "placement:traits:list": ADMIN_OR_SERVICE,
    "placement:traits:show": ADMIN_OR_SERVICE,
    "placement:traits:update": ADMIN_OR_SERVICE,
    "placement:traits:delete": ADMIN_OR_SERVICE,
    "placement:usages": READER,
    "placement:reshaper:reshape": SERVICE,
}

DEFAULTS: Final[Mapping[Defaults, Mapping[str, str]]] = {
    "legacy": {**BASE_RULES, **RULES, "placement:reshaper:reshape": "rule:admin_api or rule:service_api"},
    "secure-rbac": {**BASE_RULES, **RULES},
}
