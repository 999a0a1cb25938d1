"""Placement's errors, more specific than the domain's errors because its clients distinguish them by a code."""

from whimbrel.domain.errors import Conflict, NotFound, Refused


class ProviderNotFound(NotFound):
    """There is no provider with this uuid."""


class Stale(Conflict):
    """A generation is outdated: read again, then retry."""


class Duplicate(Conflict):
    """The name or uuid exists."""


class InventoryInUse(Conflict):
    """There are allocations of the inventory to be removed."""


class ProviderInUse(Conflict):
    """There are allocations of the provider to be removed."""


class HasChildren(Conflict):
    """The provider to be removed has children."""


class HostInUse(Conflict):
    """There are allocations on the host with a changing zone."""


class NameInUse(Conflict):
    """A provider has the class or trait to be removed."""


class NoRoom(Refused):
    """The provider lacks the capacity, or the amount violates its units."""


class BadInventory(Refused):
    """The inventory would leave nothing, or too little, to allocate."""


class UnknownProvider(Refused):
    """The request names a provider that does not exist."""


class UnknownName(Refused):
    """The request names a resource class or trait that does not exist."""


class BadParent(Refused):
    """The parent does not exist, or the change would create a cycle or is not allowed."""


class StandardName(Refused):
    """Clients cannot change standard classes and traits."""
