"""A small volume service that speaks Cinder v3: records in a store, files in a directory, exports through a port.

Law: it knows no database and no hypervisor; what it keeps goes through ports.volume_store.VolumeStore, and how hosts
reach a volume is ports.volume_exports.VolumeExports.
"""

from whimbrel.embedded.volume.app import volume_app
from whimbrel.embedded.volume.service import VolumeService

__all__ = ["VolumeService", "volume_app"]
