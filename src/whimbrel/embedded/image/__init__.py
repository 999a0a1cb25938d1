"""A small image service that speaks Glance v2: records in a store, files in a directory.

Law: it knows no database; what it keeps goes through ports.images.ImageStore.
"""

from whimbrel.embedded.image.app import image_app
from whimbrel.embedded.image.in_process import LocalImages, seed_image
from whimbrel.embedded.image.service import ImageService

__all__ = ["ImageService", "LocalImages", "image_app", "seed_image"]
