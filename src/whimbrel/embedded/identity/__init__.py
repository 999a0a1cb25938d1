"""A small identity service with the Keystone v3 API: users, roles, tokens and the service catalog.

Invariant: it has no database code; all state goes through ports.identity.IdentityStore.
"""

from whimbrel.embedded.identity.app import identity_app
from whimbrel.embedded.identity.initial_accounts import bootstrap, reset_password
from whimbrel.embedded.identity.service_catalog import Catalog, Service

__all__ = ["Catalog", "Service", "bootstrap", "identity_app", "reset_password"]
