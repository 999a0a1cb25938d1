"""A small volume service with the Cinder v3 API: records in a store, files in a directory, exports through a port.

Invariant: it has no code of databases or hypervisors; its state goes through ports.embedded.volume_store.VolumeStore,
and hosts reach volumes through ports.embedded.volume_backing.VolumeExports.
"""

from whimbrel.embedded.volume.app import volume_app
from whimbrel.embedded.volume.service import VolumeService

__all__ = ["VolumeService", "volume_app"]
