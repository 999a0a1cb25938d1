"""A small network service with the Neutron v2.0 API: its state is in a store. Agents configure the hosts.

Invariant: it has no database code; all state goes through ports.embedded.network_store.NetworkStore.
"""

from whimbrel.embedded.network.app import network_app

__all__ = ["network_app"]
