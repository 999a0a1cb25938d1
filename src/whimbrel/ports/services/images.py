"""The image service as conductor and agents use it, and the records of the embedded one."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from whimbrel.ports.embedded.metadefs import MetadefStore
from whimbrel.ports.stores.pages import Page


class Image(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    status: str  # "queued" | "saving" | "active" | "deleted" ...
    disk_format: str | None
    size_bytes: int
    checksum: str | None
    min_disk_gib: int = 0
    min_ram_mib: int = 0
    owner: str | None = None  # a project; default over HTTP: the requester's project
    visibility: str = "private"
    properties: dict[str, str] = {}
    created_at: float = 0.0  # seconds since 1970; 0: unknown
    updated_at: float = 0.0
    protected: bool = False  # by its owner: it cannot be deleted


class AllImages(Protocol):
    async def all_images(self, after: str | None, limit: int) -> Page[Image]:
        """Return the images of all projects. Raises: Refused, NotFound: as above."""


class Images(AllImages, Protocol):
    async def with_properties(self, properties: Mapping[str, str]) -> list[Image]:
        """Return the images of all projects that have these properties, the newest first. Raises: Unavailable."""

    async def show(self, image_id: str) -> Image:
        """Raises: NotFound; Unavailable."""

    def read(self, image_id: str) -> AsyncIterator[bytes]:
        """Yield the file in chunks. Raises: NotFound; Unavailable."""

    async def create(self, image: Image) -> None:
        """Register an image without a file, with its given id. Idempotent."""

    async def write(self, image_id: str, chunks: AsyncIterator[bytes]) -> None:
        """Store the file and make the image active; no effect if it is active."""

    async def set_properties(self, image_id: str, properties: Mapping[str, str]) -> None:
        """Make these the properties of an image. Idempotent. Raises: NotFound; Refused: the service forbids one."""

    async def delete(self, image_id: str) -> None:
        """Delete an image. Idempotent. Raises: Refused: it is protected; Unavailable."""


class ImageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An image of the embedded image service. Times are seconds since 1970."""

    id: str
    name: str | None
    owner: str | None
    visibility: str  # "public" | "private" | "shared" | "community"
    disk_format: str | None
    container_format: str | None
    created_at: float
    updated_at: float
    min_disk_gib: int = 0
    min_ram_mib: int = 0
    protected: bool = False
    hidden: bool = False
    properties: dict[str, str] = {}
    tags: list[str] = []
    generation: int = 0  # increases with every change; a change names the one that it read
    stored: "StoredFile | None" = None
    held: str | None = None  # why its file cannot be used: "uploading": staged, not imported yet; "deactivated"

    @property
    def status(self) -> str:
        return self.held or ("active" if self.stored else "queued")


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A complete file on disk."""

    name: str
    size_bytes: int
    md5: str
    sha512: str


class ImageLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of each project, -1: none. image_bytes: of one file."""

    images: int = -1
    size_bytes: int = -1
    image_bytes: int = -1


NO_LIMITS = ImageLimits()


class ImageUsage(msgspec.Struct, frozen=True, kw_only=True):
    images: int
    size_bytes: int


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A project with which an image is shared."""

    image_id: str
    project_id: str
    status: str  # "pending" | "accepted" | "rejected"
    created_at: float
    updated_at: float


class ImageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query of images. Empty fields do not filter."""

    viewer: str | None  # the requesting project; None: sees everything
    visibility: str | None = None  # None: all except other projects' community images; "all": those too
    member_status: str = "accepted"  # of images shared with the viewer; "all": any
    columns: Mapping[str, Sequence[str | bool]] = {}  # column -> one of these values
    status: Sequence[str] = ()
    tags: Sequence[str] = ()
    properties: Mapping[str, str] = {}
    size_min: int | None = None
    size_max: int | None = None
    order: Sequence[tuple[str, bool]] = (("created_at", True), ("id", True))  # column, descending
    after: ImageRecord | None = None  # marker: begin after this one
    limit: int = 25


class ImageStore(MetadefStore, Protocol):
    """The records of the embedded image service, without the images' files.

    All methods raise Unavailable.
    """

    async def add(self, record: ImageRecord, most: int = -1) -> None:
        """Add an image. most: images per project, -1: no limit.

        Raises: Conflict: the id is taken; OverQuota.
        """

    async def usage(self, project_id: str, but: Collection[str] = ()) -> ImageUsage:
        """Count the images of a project, and the bytes of its files. but: files to leave out."""

    async def find(self, image_id: str) -> ImageRecord:
        """Raises: NotFound."""

    async def search(self, query: ImageQuery) -> list[ImageRecord]: ...

    async def change(self, record: ImageRecord) -> ImageRecord:
        """Write all fields except `stored`. Raises: NotFound; Conflict: changed since it was read."""

    async def attach_file(self, image_id: str, stored: StoredFile, now: float, held: str | None = None) -> None:
        """Make a queued image active, or hold its file. Raises: NotFound; Conflict: it has a file."""

    async def remove(self, image_id: str) -> StoredFile | None:
        """Remove an image and return its file, which no image refers to now. Raises: NotFound; Refused: protected."""

    async def names_file(self, name: str) -> bool:
        """Check whether an image has this file."""

    async def members(self, image_id: str) -> list[Member]: ...

    async def add_member(self, member: Member) -> None:
        """Raises: Conflict: it is a member already; NotFound: no such image."""

    async def change_member(self, image_id: str, project_id: str, status: str, now: float) -> Member:
        """Raises: NotFound."""

    async def remove_member(self, image_id: str, project_id: str) -> None:
        """Raises: NotFound."""
