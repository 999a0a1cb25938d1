"""A small network service that speaks Neutron v2.0: what it knows is in a store, and nothing is switched for real.

Law: it knows no database; what it keeps goes through ports.network_store.NetworkStore.
"""

from whimbrel.embedded.network.app import network_app

__all__ = ["network_app"]
