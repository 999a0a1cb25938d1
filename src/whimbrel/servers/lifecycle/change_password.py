"""Change of a password in a running guest, by the guest's agent.

Invariant: the guest has the new password before the record shows its encrypted form. There is no undo: nothing knows
the old password. The run forgets the password when the guest has it, or when it is over.
"""

from msgspec.structs import replace

from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation


class PasswordFacts(OperationFacts, frozen=True, kw_only=True, omit_defaults=True):
    """guest_user: in the guest. guest_password: encrypted for the server's key pair; "": it has none that can."""

    guest_user: str = "root"
    admin_pass: str = ""
    guest_password: str = ""


PasswordChange = Run[PasswordFacts]


async def set_password(run: PasswordChange, cloud: Cloud) -> None:
    """Raises: NoGuestAgent: none answers; Refused: the guest refuses."""
    facts = run.facts
    await operation.agent(run, cloud).set_password(run.order, operation.key(run), facts.guest_user, facts.admin_pass)


async def forget_password(run: PasswordChange, cloud: Cloud) -> PasswordFacts:
    return replace(run.facts, admin_pass="")


async def settle_password(run: PasswordChange, cloud: Cloud) -> None:
    shown = {"guest_password": run.facts.guest_password} if run.facts.guest_password else {}
    await operation.settle(run, cloud, shown)


CHANGE_PASSWORD: Saga[PasswordFacts] = Saga(
    "change_password",
    1,
    PasswordFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True),
        Step(set_password, in_request=True, event="compute_set_admin_password"),  # the response reports a refusal
        Step(forget_password, passive=True),
        Step(settle_password),
    ),
    secrets=("admin_pass",),
)


async def accept(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, password: str, user: str, encrypted: str = ""
) -> None:
    """Change the password of a user in a running guest. encrypted: the password for the record; "": none.

    Raises: NoGuestAgent; Refused; WrongState; Conflict; Unavailable.
    """
    await operation.accept(
        cloud, engine, requester, server, CHANGE_PASSWORD, "changePassword", "updating_password", ("active",),
        admin_pass=password, guest_user=user, guest_password=encrypted,
    )  # fmt: skip
