"""Cinder's NFS driver, which also extends volumes that a guest uses; cinder-volume loads it, where Cinder is installed.

Cinder's own refuses that (bug 1870367), and no other driver of it runs without a storage network. All of an extension
but this method is real: the API, the scheduler, the manager with its quotas, and the event for the compute service.
"""

import os
from typing import Any

from cinder.volume.drivers.nfs import NfsDriver


class GrowingNfsDriver(NfsDriver):  # type: ignore[misc]
    def extend_volume(self, volume: Any, new_size: int) -> None:
        """Extend the file of a volume, which is raw: QEMU keeps a lock on it that qemu-img would respect."""
        os.truncate(self.local_path(volume), new_size << 30)
