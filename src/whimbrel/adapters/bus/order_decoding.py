"""An order as it arrives at an agent, over any bus.

Invariant: an order with fields that this agent does not know is refused: a newer conductor could mean something else
than what this agent does.
"""

from importlib.metadata import version
from typing import Any

import msgspec

from whimbrel.adapters.bus.verbs import VERBS
from whimbrel.adapters.unknown_fields import unknown_field
from whimbrel.domain.errors import Refused


def decode_order(host: str, name: str, body: bytes) -> dict[str, Any]:
    """Return the arguments of an order. Raises: Refused: this agent does not know it; DecodeError: it is not JSON."""
    verb = VERBS.get(name)
    if verb is None:
        raise _unknown(host, f"the order {name!r}")
    try:
        question = verb.decode_question(body)
    except msgspec.ValidationError as error:
        raise _unknown(host, f"these arguments of {name}: {error}") from None
    if field := unknown_field(body, verb.question):
        raise _unknown(host, f"the argument {field!r} of {name}")
    return msgspec.structs.asdict(question)


def _unknown(host: str, what: str) -> Refused:
    return Refused(
        f"the agent of host {host} (Whimbrel {version('whimbrel')}) does not know {what}; upgrade the agent to the"
        " version of the conductors"
    )
