"""Every API suite has the services that it asks."""

from tests.api.front import front
from tests.api.network_service import service
from tests.api.placement_client import client
from tests.api.volume_cloud import cloud

__all__ = ["client", "cloud", "front", "service"]
