"""A small identity service that speaks Keystone v3: who is who, tokens, and where the other services are.

Law: it knows no database; what it keeps goes through ports.identity.IdentityStore.
"""

from whimbrel.embedded.identity.app import identity_app
from whimbrel.embedded.identity.initial_accounts import bootstrap, reset_password
from whimbrel.embedded.identity.service_catalog import Catalog, Service

__all__ = ["Catalog", "Service", "bootstrap", "identity_app", "reset_password"]
