"""A small network service with the Neutron v2.0 API: its state is in a store, and no real network is configured.

Invariant: it has no database code; all state goes through ports.network_store.NetworkStore.
"""

from whimbrel.embedded.network.app import network_app

__all__ = ["network_app"]
