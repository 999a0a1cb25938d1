"""A small image service with the Glance v2 API: records in a store, files in a directory.

Invariant: it has no database code; all records go through ports.services.images.ImageStore.
"""

from whimbrel.embedded.image.app import image_app
from whimbrel.embedded.image.in_process import LocalImages, seed_image
from whimbrel.embedded.image.service import ImageService

__all__ = ["ImageService", "LocalImages", "image_app", "seed_image"]
