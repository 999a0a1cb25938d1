"""Choice of the touches at which a story strikes, by their names.

A name that chooses nothing is an error: otherwise a test that loops over the chosen touches would check nothing
after a port or a method was renamed.
"""

from collections.abc import Callable, Container, Sequence

from whimbrel.sim.faults.chaos import PORTS, changes

PORTS_OF_CELLS = ("agent", "servers", "hosts", "devices")


Chooses = Callable[[str], bool]
"""Whether touches of this name are chosen."""


def chosen(touches: Sequence[str], chooses: Chooses, among: Container[int] | None = None) -> list[tuple[int, str]]:
    """Return the number and the name of each touch that is chosen, among: of these numbers only.

    Raises: AssertionError: none is.
    """
    found = [
        (number, name) for number, name in enumerate(touches) if chooses(name) and (among is None or number in among)
    ]
    assert found, f"none of {len(touches)} touches is chosen: {sorted(set(touches))}"
    return found


def of(*ports: str) -> Chooses:
    """Return a predicate: whether a touch is a call of one of these ports. Raises: AssertionError: no such port."""
    unknown = set(ports) - {*PORTS, *PORTS_OF_CELLS}
    assert not unknown, f"the simulated cloud has no such ports: {unknown}"
    return lambda touch: port_of(touch) in ports


def port_of(touch: str) -> str:
    """Return the port of "network.bind", "c1.devices.claim" or "agent h1.start"."""
    owner = touch.rsplit(".", 1)[0]
    return "agent" if owner.startswith("agent ") else owner.rsplit(".", 1)[-1]


services = of("network", "volumes")
"""Services that know no epochs."""

_journal = of("journal")


def may_come_late(touch: str) -> bool:
    """Leave out the journal: the order of its entries is what the others are measured by."""
    return changes(touch) and not _journal(touch)
