"""The processes of a simulated cloud: API processes, conductors, agents. Each is started again after it dies."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple, cast

import msgspec

from whimbrel.adapters.sql.engine.sqlite import SqliteDatabase
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.api.app import compute_app
from whimbrel.api.http import policy
from whimbrel.api.http.context import Context
from whimbrel.conductor.conductor import Conductor, Pace
from whimbrel.domain.ids import HostName, ProjectId, UserId
from whimbrel.domain.run import Run
from whimbrel.domain.self_fencing import CLOCK_ERROR_S, DRIFT
from whimbrel.http.policy import Policy
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.identity import Principal, with_implied
from whimbrel.ports.services.images import Images
from whimbrel.ports.unreachable_cells import UnreachableCells
from whimbrel.saga.engine import Engine
from whimbrel.scheduling.fleet import KnownFleet
from whimbrel.sim.cloud.cloud import PROJECT, USER, World
from whimbrel.sim.cloud.delayed_agent import HoldingAgent
from whimbrel.sim.cloud.server_names import Names
from whimbrel.sim.cloud.traced_journal import TracedJournal
from whimbrel.sim.cloud.watched_hosts import WatchedHosts
from whimbrel.sim.faults.call_subjects import Subjects
from whimbrel.sim.faults.fault_state import FaultState
from whimbrel.sim.faults.network_faults import Bus, Check, ImageFaults, NetworkFaults
from whimbrel.sim.record.trace import Trace
from whimbrel.sim.world.clock import WrongClock
from whimbrel.sim.world.loop import Process, SimulatedLoop

RESTARTS_S = 1.0
"""How long after its end a process that was not killed is restarted."""

PACE = Pace(poll_s=5.0, reconcile_s=10.0)
"""Slower than in production: otherwise a simulated cloud spends most of its time in polling."""

BEATS_S = 10.0

ALLOWED = {"compute:servers:resize:cross_cell": "@"}
"""What operators allow users here and not by default."""

_POLICY: list[Policy] = []


class Answer(NamedTuple):
    """The response that a user gets. status 0: none."""

    status: int
    body: Any


NO_ANSWER = Answer(0, None)


class SimulatedIdentity:
    """Implements ports.services.identity.Identity: a token is the name of a role."""

    async def principal(self, token: str) -> Principal | None:
        user = UserId("admin") if token == "admin" else USER
        return Principal(user_id=user, user_name=token, project_id=ProjectId(PROJECT), roles=with_implied([token]))


class Clocks:
    """How wrong the clocks of processes and hosts are, within what the cloud assumes."""

    def __init__(self, seed: int | None) -> None:
        """seed: None: they are right."""
        self._seed = seed

    def ahead_s(self, process: str) -> float:
        """Return how far the clock of a process is ahead of that of the database; negative: behind."""
        return 0.0 if self._seed is None else Random(f"{process} {self._seed}").uniform(-0.5, 0.5) * CLOCK_ERROR_S

    def rate(self, host: HostName) -> float:
        """Return the seconds that pass on a host in one second."""
        return 1.0 if self._seed is None else 1.0 + Random(f"{host} {self._seed}").uniform(-0.5, 0.5) * DRIFT


RIGHT_CLOCKS = Clocks(None)


class Staff:
    """All processes of a cloud; it starts and stops them."""

    def __init__(
        self,
        world: World,
        loop: SimulatedLoop,
        fault_state: FaultState,
        trace: Trace,
        check: Check,
        clocks: Clocks = RIGHT_CLOCKS,
    ) -> None:
        self.world = world
        self.loop = loop
        self.names = Names()
        self.fault_state = fault_state
        self._trace = trace
        self.check = check
        self._subjects = Subjects()
        self._bus = Bus(loop, fault_state, check, self._subjects)
        self._processes: dict[str, Process] = {}
        self._apps: dict[str, Any] = {}
        self._outside = Process("supervisor")
        world.simulated.on_power_off = self._lose_power
        self._clocks = clocks
        rates = {host: clocks.rate(host) for host, _ in world.plan.homes()} if world.plan.self_fence_s else {}
        self.watched = WatchedHosts(world, loop, rates, self._stop_agent, self._fenced)
        self._registering: set[HostName] = set()
        self.ended_agents: set[HostName] = set()  # which the watchdogs of their hosts have killed

    # API processes and conductors

    def start(self, name: str) -> None:
        process = self._processes[name] = Process(name)
        cloud = self._cloud(process)
        parts = self.world.engine_parts(name, cloud)
        conductor = Conductor(cloud, parts, predecessors=[name], pace=PACE)  # the predecessor of this name is dead
        if name.startswith("door"):
            if not _POLICY:
                _POLICY.append(Policy.load({**policy.DEFAULTS, **ALLOWED}))
            context = Context(cloud=cloud, engine=conductor.engine, identity=SimulatedIdentity(), policy=_POLICY[0])
            self._apps[name] = compute_app(context)
        serving = self.loop.spawn(process, conductor.serve())
        self._outside.context.copy().run(serving.add_done_callback, lambda ended: self._ended(name, process, ended))

    def _ended(self, name: str, process: Process, ended: "asyncio.Task[None]") -> None:
        """Restart a process that stopped because its database was unreachable."""
        if ended.cancelled() or process.is_dead:
            return
        self._trace.tell(self.loop.time(), name, f"ends: {ended.exception()!r}")
        process.is_dead = True
        self.loop.call_later(RESTARTS_S, self._start_again, name, process, context=self._outside.context.copy())

    def _start_again(self, name: str, process: Process) -> None:
        if self._processes[name] is process:  # else it was restarted meanwhile
            self.start(name)

    def put_back(self, copies: Mapping[str, SqliteDatabase]) -> None:
        """Stop all API processes and conductors, replace databases by older copies, and start the processes again."""
        for process in self._processes.values():
            process.is_dead = True
        for name, copy in copies.items():
            self.world.remains.databases[name].replace_by(copy)
        self.world.forget_memory()
        for name in self._processes:
            self.start(name)

    def operator(self) -> tuple[Cloud, Engine]:
        """Return the cloud and the engine of an operator's command."""
        cloud = self._cloud(Process("operator"))
        return cloud, self.world.engine("operator", cloud)

    def _cloud(self, process: Process) -> Cloud:
        """Return the ports of the cloud for one process, with its own caches and network faults."""
        cloud, world = self.world.cloud, self.world
        databases = world.remains.databases
        cells = {name: replace(cell, agents=self._bus) for name, cell in cloud.cells.items()}
        journal = TracedJournal(databases["global"], world.registry, lambda run, what: self._tell(process, run, what))
        clock = WrongClock(cloud.clock, ahead_s) if (ahead_s := self._clocks.ahead_s(process.name)) else cloud.clock
        own = replace(
            cloud,
            clock=clock,
            cells=cells,
            journal=journal,
            placement=SqlPlacement(databases["placement"], Random(process.name)),
            unreachable=UnreachableCells(),
            fleets=KnownFleet(cells, cloud.cell_infos, cloud.aggregates, clock, cloud.rules),
        )
        return self._faults_of(process).wrap(own)

    def _faults_of(self, process: Process) -> NetworkFaults:
        return NetworkFaults(self.loop, self.fault_state, self._trace, process, self.check, self._subjects)

    def _tell(self, process: Process, run: Run, what: str) -> None:
        self._trace.tell(self.loop.time(), process.name, f"{run.saga} of {self.names.of(run.subject)} {what}")

    def process(self, name: str) -> Process:
        return self._processes[name]

    # Agents

    async def start_agent(self, host: HostName) -> None:
        """Start the agent of a host; its hypervisor reads its store. One that has a watchdog registers first."""
        if self.world.plan.self_fence_s and not await self._register(host):
            return
        world, process = self.world, Process(f"agent {host}")
        images = cast(Images, ImageFaults(self._faults_of(process), world.cloud.images))
        hypervisor = world.hypervisors[host] = world.hypervisors[host].reborn(images)
        await hypervisor.guests()
        agent = HoldingAgent(host, hypervisor, images, world, self.fault_state)
        self._bus.agents[host] = (process, agent)

    def agent(self, host: HostName) -> Process:
        return self._bus.agents[host][0]

    async def _register(self, host: HostName) -> bool:
        """Begin the lease of a host when the cloud answers it. Its agent obeys no orders before.

        Return False if it lost its power meanwhile, or another agent is about to register.
        """
        if host in self._registering:
            return False
        self._registering.add(host)
        [cell] = [cell for name, cell in self.world.plan.homes() if name == host]
        while True:
            if not (self.fault_state.partitioned.get(host) or self.fault_state.outage(f"cell_{cell}")):
                break
            await asyncio.sleep(BEATS_S)
        self._registering.discard(host)
        if host in self.world.simulated.off:
            return False
        await self.world.cloud.cell(cell).hosts.seen([host], self.world.cloud.clock.now())
        self.watched.renew([host])
        self.ended_agents.discard(host)
        return True

    def _stop_agent(self, host: HostName) -> None:
        self.agent(host).is_dead = True
        self.ended_agents.add(host)

    def _lose_power(self, host: HostName) -> None:
        self.agent(host).is_dead = True
        self.watched.reboot(host)

    def _fenced(self, host: HostName) -> None:
        self._trace.tell(self.loop.time(), f"watchdog {host}", "has stopped all guests")
        self._trace.tally.went_wrong("fenced itself", "")
        self.check(f"the watchdog of {host}", None)

    async def beat(self) -> None:
        """Record heartbeats of the running hosts periodically, if the database of their cell accepts them."""
        while True:
            for name, cell in self.world.cloud.cells.items():
                if not self.fault_state.outage(f"cell_{name}"):
                    here = [
                        host for host, its in self.world.plan.homes() if its == name and self._sends_heartbeats(host)
                    ]
                    await cell.hosts.seen(here, self.world.cloud.clock.now())
                    self.watched.renew(here)
            await asyncio.sleep(BEATS_S)

    def _sends_heartbeats(self, host: HostName) -> bool:
        process = self.agent(host)
        return not (process.is_dead or process.is_frozen or self.fault_state.partitioned.get(host))

    # Responses to users

    async def ask(self, endpoint: str, method: str, path: str, body: Any = None, who: str = "member") -> Answer:
        """Send a request to an endpoint. Return status 0 if no process serves it."""
        process = self._processes[endpoint]
        if process.is_dead:
            return NO_ANSWER
        answer = self.loop.create_future()
        request = self._request(self._apps[endpoint], method, path, body, who)

        def reply(work: asyncio.Task[Answer]) -> None:
            if not answer.done() and not work.cancelled():
                answer.set_result(work.result())

        self.loop.spawn(process, request).add_done_callback(reply)
        try:
            async with asyncio.timeout(USERS_WAIT_S):
                told: Answer = await answer
                return told
        except TimeoutError:
            return NO_ANSWER

    async def _request(self, app: Any, method: str, path: str, body: Any, who: str) -> Answer:
        raw = b"" if body is None else msgspec.json.encode(body)
        path, _, query = path.partition("?")
        headers: Mapping[str, str] = {
            "x-auth-token": who,
            "openstack-api-version": "compute 2.100",
            "content-type": "application/json",
            "content-length": str(len(raw)),
            "host": "cloud",
        }
        scope = {
            "type": "http",
            "method": method,
            "path": f"/v2.1{path}",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "scheme": "http",
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": raw, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await app(scope, receive, send)
        text = b"".join(message.get("body", b"") for message in sent)
        return Answer(sent[0]["status"], msgspec.json.decode(text) if text else None)


USERS_WAIT_S = 60.0
