"""The quotas of a process: limits in the cloud's own database, or those of the identity service."""

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.global_.quotas import SqlQuotas
from whimbrel.bootstrap.identity import Authentication
from whimbrel.ports.clock import Clock
from whimbrel.ports.services.unified_limits import UnifiedLimits
from whimbrel.ports.stores.catalog import Quotas
from whimbrel.settings import CloudConfig


def quotas_of(config: CloudConfig, auth: Authentication, global_: Database, clock: Clock) -> Quotas:
    if config.rules.quota.driver == "projects":
        return SqlQuotas(global_)
    from whimbrel.adapters.openstack.keystone_quotas import UnifiedQuotas

    return UnifiedQuotas(_limits(auth), config.rules.quota, clock)


def _limits(auth: Authentication) -> UnifiedLimits:
    if auth.external:
        return auth.external.limits
    from whimbrel.embedded.identity.own_limits import OwnLimits

    assert auth.accounts, "without an external identity service there is an embedded one"
    return OwnLimits(auth.accounts)
