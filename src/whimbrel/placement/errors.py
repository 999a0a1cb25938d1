"""What Placement says no with, finer than the domain's errors because its clients tell them apart by a code."""

from whimbrel.domain.errors import Conflict, NotFound, Refused


class ProviderNotFound(NotFound):
    """There is no provider of this uuid."""


class Stale(Conflict):
    """A generation is of the past: look again, then ask again."""


class Duplicate(Conflict):
    """The name or uuid is taken."""


class InventoryInUse(Conflict):
    """Somebody holds something of the inventory that would go."""


class ProviderInUse(Conflict):
    """Somebody holds something of the provider that would go."""


class HasChildren(Conflict):
    """The provider that would go is the parent of another."""


class HostInUse(Conflict):
    """Somebody holds something of the host that would be in another zone."""


class NameInUse(Conflict):
    """A provider has the class or trait that would go."""


class NoRoom(Refused):
    """The provider has not this much to give, or not in such pieces."""


class BadInventory(Refused):
    """Of the inventory nothing, or not enough, would be left to allocate."""


class UnknownProvider(Refused):
    """What is asked for names a provider that is not there."""


class UnknownName(Refused):
    """What is asked for names a resource class or trait that is not there."""


class BadParent(Refused):
    """The parent is not there, or the change would make a circle or is not allowed."""


class StandardName(Refused):
    """A standard class or trait is not for clients to change."""
