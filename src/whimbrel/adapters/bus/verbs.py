"""The verbs of a port as a table, derived from its methods: both ends of each bus are built from it."""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, get_type_hints

import msgspec

from whimbrel.domain import errors
from whimbrel.ports.hosts.agent import Agent
from whimbrel.ports.hosts.control_plane import ControlPlane


class Verb(NamedTuple):
    question: type[msgspec.Struct]  # its fields are the verb's arguments
    decode_question: Callable[[bytes], Any]
    decode_answer: Callable[[bytes], Any]


def _verb(name: str, method: Callable[..., Any]) -> Verb:
    hints = get_type_hints(method)
    answer = hints.pop("return")
    hints.pop("host", None)  # part of the address, never of the message
    defaults = {arg.name: arg.default for arg in inspect.signature(method).parameters.values()}
    fields: list[Any] = [
        (arg, hint) if defaults[arg] is inspect.Parameter.empty else (arg, hint, defaults[arg])
        for arg, hint in hints.items()
    ]
    # Fields with default values are omitted: an older agent receives only what it must know.
    question = msgspec.defstruct(name, fields, frozen=True, omit_defaults=True)
    return Verb(question, msgspec.json.Decoder(question).decode, msgspec.json.Decoder(answer).decode)


def _verbs(port: type) -> dict[str, Verb]:
    return {name: _verb(name, method) for name, method in vars(port).items() if inspect.iscoroutinefunction(method)}


VERBS: Final = _verbs(Agent)

CONTROL_VERBS: Final = _verbs(ControlPlane)
"""What an agent asks of the control plane. The host is not among the arguments."""

ERRORS: Final = {
    name: error
    for name, error in vars(errors).items()
    if inspect.isclass(error) and issubclass(error, errors.WorldError)
}

ADDED: Final[Mapping[str, Collection[str]]] = {}
"""What agents of release 0.2 lack: verb -> its new arguments; none: the verb itself is new."""

TROUBLE: Final = 409
"""The HTTP status of a WorldError."""


class Trouble(msgspec.Struct, frozen=True):
    """An error as transferred over the bus."""

    error: str
    reason: str


encode = msgspec.json.Encoder().encode
_decode_trouble = msgspec.json.Decoder(Trouble).decode


def encode_trouble(error: errors.WorldError) -> bytes:
    return encode(Trouble(type(error).__name__, error.reason))


def decode_trouble(content: bytes) -> errors.WorldError:
    """Recreate an error; one that only a newer program knows becomes Unavailable. Raises: msgspec.DecodeError."""
    trouble = _decode_trouble(content)
    return ERRORS.get(trouble.error, errors.Unavailable)(trouble.reason)
