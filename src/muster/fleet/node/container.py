"""One container: a program run as a task, checked by probes, restarted when it ends, and stopped on request.

An attempt resolves its references (waiting until they exist) → runs → ends with an exit code. The restart policy decides on another
attempt; the first one follows at once, later ones after 10 s, 20 s, … 5 min, until one has lasted ten minutes. Cancellation is a
program's SIGTERM. A program that has not ended after its grace period cannot be killed as a process can: it is cancelled once more,
reported as killed (137), and if even that does not end it, abandoned and logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from muster.fleet.node import containerlog
from muster.fleet.node.containerlog import ContainerLog
from muster.fleet.node.environment import MissingReference, PodEnvironment, expand
from muster.fleet.node.podspec import ContainerSpec, Probe
from muster.fleet.node.probes import ProbeLoop
from muster.fleet.node.programs import Program, Programs, command_line, find_program
from muster.fleet.node.simulated import simulated_program
from muster.fleet.node.states import (
    CONFIG_ERROR,
    CRASH_LOOP,
    CREATE_ERROR,
    NOT_RUNNABLE,
    SCHEME,
    ContainerStatus,
    Running,
    Terminated,
    Waiting,
    restarts_after,
)
from muster.machinery.backoff import Backoff
from muster.machinery.clock import Clock, sleep, within
from muster.machinery.confinement import confined, own
from muster.machinery.logs import diverted, get_logger

log = get_logger("muster.fleet.node")

CRASH_BACKOFF = Backoff(10.0, 300.0, jitter=0.0)
STEADY = 600.0
"""After an attempt of this length in seconds the backoff starts from the beginning."""
LAST_WORD = 2.0
"""Seconds that a program has after its grace period."""
TERMINATED_BY_REQUEST, KILLED, NOT_STARTED = 143, 137, 128
CONFIG_RETRY = 10.0


class Host(Protocol):
    """What a container needs of its pod."""

    def runnable(self, image: str) -> bool: ...

    def simulates(self, image: str) -> bool:
        """Whether containers of the image are simulated as running."""

    def environment(self, spec: ContainerSpec, write: Callable[[str, str], None]) -> PodEnvironment:
        """Resolved again for every attempt; raises `MissingReference` while an object is missing."""

    def changed(self) -> None:
        """Called when the status has changed: write it to the API server."""

    def record_event(self, warning: bool, reason: str, note: str) -> None:
        """An event about the pod."""


@dataclass(frozen=True, slots=True)
class ContainerPolicy:
    """Restart policy and grace period of a container."""

    policy: str
    grace: float
    shown: str
    """The pod in messages: name_namespace(uid)."""


class Container:
    def __init__(
        self,
        spec: ContainerSpec,
        container_policy: ContainerPolicy,
        programs: Programs,
        host: Host,
        logs: Path,
        clock: Clock,
        status: ContainerStatus,
    ) -> None:
        self.spec = spec
        self.container_policy = container_policy
        self.status = status
        self.log: ContainerLog | None = None
        """The log of the running attempt."""
        self.logs = logs
        self._programs = programs
        self._host = host
        self._clock = clock
        self._failures = 0
        self._task: asyncio.Task[int] | None = None
        self._grace: float | None = None
        """The grace period with which the present attempt was stopped."""
        self._stopping: float | None = None
        """The grace period with which the container is stopped for good."""
        self._news = asyncio.Event()
        self._attempted = status.done or status.last is not None
        """Whether there was an attempt before: the next one is a restart."""
        self._owes_pause = self._attempted

    @property
    def attempt(self) -> int:
        """Number of the present, or last, attempt."""
        return self.status.restarts

    def is_stopping(self) -> bool:
        return self._stopping is not None

    def changed(self, spec: ContainerSpec | None = None) -> None:
        """An object that it waits for may exist now, or it has another image."""
        if spec is not None and spec != self.spec:
            replaced = spec.image != self.spec.image
            self.spec = spec
            if replaced and self._task is not None:
                self._host.record_event(False, "Killing", f"Container {spec.name} definition changed, will be restarted")
                self._request_stop(self.container_policy.grace)
        self._news.set()

    def stop(self, grace: float) -> None:
        """Stop it for good, within so many seconds. `run` then returns."""
        if self._stopping is not None and self._stopping <= grace:
            return
        self._stopping = grace
        self._news.set()
        if self._task is not None and not self._task.done():
            if self._grace is None:
                self._host.record_event(False, "Killing", f"Stopping container {self.spec.name}")
            self._request_stop(grace)

    def _request_stop(self, grace: float) -> None:
        first, self._grace = self._grace is None, grace if self._grace is None else min(grace, self._grace)
        if first and self._task is not None:
            self._task.cancel()
        self._news.set()

    async def run(self) -> None:
        """Run until it is stopped or has ended for good; `status` has the result."""
        if self.status.done and not self._goes_on():
            return
        while not self.is_stopping():
            if not self.is_runnable():
                await self._wait(None)
                continue
            if self._owes_pause:
                self._owes_pause = False
                await self._back_off()
                if self.is_stopping():
                    return
            if not await self._attempt():
                continue
            if not self._goes_on():
                return

    def _goes_on(self) -> bool:
        state = self.status.state
        return (
            isinstance(state, Terminated)
            and self._stopping is None
            and restarts_after(self.container_policy.policy, state.exit_code)
        )

    def is_runnable(self) -> bool:
        """Whether its image is ours; if not, it waits with the reason in its status."""
        if self._host.runnable(self.spec.image) or self._host.simulates(self.spec.image):
            return True
        text = f'image "{self.spec.image}" does not run here: this node runs Muster\'s own image only'
        if self.status.state != Waiting(NOT_RUNNABLE, text):
            self._host.record_event(True, NOT_RUNNABLE, text)
        self._set(replace(self.status, state=Waiting(NOT_RUNNABLE, text), last=_last(self.status), ready=False, started=False))
        return False

    def _set(self, status: ContainerStatus) -> None:
        if status != self.status:
            self.status = status
            self._host.changed()

    async def _wait(self, seconds: float | None) -> None:
        """Wait for a wake-up, at most so long. A wake-up before the wait ends it at once."""
        try:
            await (self._news.wait() if seconds is None else within(self._clock, seconds, self._news.wait()))
        except TimeoutError:
            return
        self._news.clear()

    async def _back_off(self) -> None:
        ended = self.status.state if isinstance(self.status.state, Terminated) else self.status.last
        if ended is not None and (ended.finished - ended.started).total_seconds() >= STEADY:
            self._failures = 0
        self._failures += 1
        if self._failures == 1:
            return
        pause = CRASH_BACKOFF.delay(self._failures - 1)
        text = f"back-off {_shown(pause)} restarting failed container={self.spec.name} pod={self.container_policy.shown}"
        self._host.record_event(
            True, "BackOff", f"Back-off restarting failed container {self.spec.name} in pod {self.container_policy.shown}"
        )
        self._set(replace(self.status, state=Waiting(CRASH_LOOP, text), last=ended, ready=False, started=False))
        due = self._clock.monotonic() + pause
        while self._stopping is None and (left := due - self._clock.monotonic()) > 0:
            await self._wait(left)

    async def _attempt(self) -> bool:
        """Run the program once; returns False if it could not start."""
        before = self.status
        number = before.restarts + 1 if self._attempted else before.restarts
        output: ContainerLog | None = None
        try:
            output = ContainerLog(self.logs, number, self._clock)
            environment = self._host.environment(self.spec, output.write)
        except (MissingReference, OSError) as problem:
            if output is not None:
                output.close()
            waiting = Waiting(CONFIG_ERROR if isinstance(problem, MissingReference) else CREATE_ERROR, str(problem))
            if before.state != waiting:
                self._host.record_event(True, "Failed", f"Error: {problem}")
            self._set(replace(before, state=waiting, last=_last(before)))
            await self._wait(CONFIG_RETRY)
            return False
        try:
            self.log, self._attempted, self._owes_pause = output, True, True
            await self._run_once(
                environment, ContainerStatus(last=_last(before), restarts=number, container_id=f"{SCHEME}{uuid4().hex}")
            )
            return True
        finally:
            output.close()
            self.log = None

    async def _run_once(self, environment: PodEnvironment, status: ContainerStatus) -> None:
        """Run it from start to end, and show that in `status`."""
        started = self._clock.now()
        command = command_line(
            [expand(word, environment.environ) for word in self.spec.command],
            [expand(word, environment.environ) for word in self.spec.args],
        )
        if self._host.simulates(self.spec.image):
            await self._simulate(environment, status, command, started)
            return
        found = find_program(self._programs, command)
        if found is None:
            known = ", ".join(sorted(" ".join(name) for name in self._programs))
            text = f"no program {' '.join(command[:2])!r} in this image; there are {known}"
            self._end(status, started, NOT_STARTED, "StartError", text)
            return
        probed = self.spec.startup_probe is not None
        ready = self.spec.readiness_probe is None and not probed
        self._set(replace(status, state=Running(started), ready=ready, started=not probed))
        self._host.record_event(False, "Started", "Container started")
        code = await self._supervise(*found, environment, self._watch(environment))
        message = self._message(environment, code, status.restarts)
        self._end(status, started, code, "Error" if code else "Completed", message)

    def _end(self, status: ContainerStatus, started: datetime, code: int, reason: str, message: str) -> None:
        state = Terminated(code, reason, message, started, self._clock.now(), status.container_id)
        self._set(replace(status, state=state))

    async def _simulate(
        self, environment: PodEnvironment, status: ContainerStatus, command: Sequence[str], started: datetime
    ) -> None:
        """There is no server to probe: the simulation decides when it is ready."""
        running = replace(status, state=Running(started))

        def ready() -> None:
            self._set(replace(running, ready=True, started=True))

        ends = self.container_policy.policy != "Always"
        program = simulated_program(self.spec.image, self._clock, ends=ends, ready=ready)
        self._set(running)
        self._host.record_event(False, "Started", "Container started, simulated: nothing of its image runs")
        code = await self._supervise(program, command, environment, None)
        self._end(status, started, code, "Error" if code else "Completed", "")

    async def _supervise(
        self, program: Program, arguments: Sequence[str], environment: PodEnvironment, health: Coroutine[Any, Any, None] | None
    ) -> int:
        name = f"{environment.namespace}/{environment.pod}/{self.spec.name}"
        self._grace = self._stopping
        self._task = asyncio.create_task(_guarded(program, arguments, environment), name=name)
        probing = asyncio.create_task(health, name=f"probes of {name}") if health is not None else None
        try:
            return await self._ended(self._task)
        except asyncio.CancelledError:
            # The node itself is being cancelled: no program may outlive it.
            self._task.cancel()
            raise
        finally:
            self._task = None
            if probing is not None:
                probing.cancel()

    async def _ended(self, task: asyncio.Task[int]) -> int:
        """Wait for the end; once the program was stopped, only for its grace period."""
        requested_at: float | None = None
        while not task.done():
            left: float | None = None
            if self._grace is not None:
                requested_at = self._clock.monotonic() if requested_at is None else requested_at
                left = requested_at + self._grace - self._clock.monotonic()
                if left <= 0:
                    return await self._kill(task)
            news = asyncio.ensure_future(self._wait(left))
            try:
                await asyncio.wait({task, news}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
        return _code(task)

    async def _kill(self, task: asyncio.Task[int]) -> int:
        task.cancel()
        pause = asyncio.ensure_future(sleep(self._clock, LAST_WORD))
        await asyncio.wait({task, pause}, return_when=asyncio.FIRST_COMPLETED)
        pause.cancel()
        if not task.done():
            log.error("program does not end; left behind", pod=self.container_policy.shown, container=self.spec.name)
            self._host.record_event(True, "FailedKillPod", f"program of container {self.spec.name} does not end; it is left behind")
        return KILLED

    async def _watch(self, environment: PodEnvironment) -> None:
        try:
            # A probe's target is in the pod's spec, so a probe may connect only where the pod may.
            with confined(environment.confinement):
                await self._probe(environment.ip)
        except Exception as problem:  # an error of a probe must be logged, and must not end the program
            log.error("probes failed", pod=self.container_policy.shown, container=self.spec.name, exc_info=problem)

    async def _probe(self, ip: str) -> None:
        """Run the startup probe first, then the others concurrently."""
        spec, clock = self.spec, self._clock
        if spec.startup_probe is not None:
            report = self._vital(spec.startup_probe, "Startup")
            if not await ProbeLoop(spec.startup_probe, ip, spec.ports, report, clock, eager=True, ends=True).run():
                return
            self._set(replace(self.status, started=True, ready=spec.readiness_probe is None))
        async with asyncio.TaskGroup() as loops:
            if spec.readiness_probe is not None:
                loops.create_task(ProbeLoop(spec.readiness_probe, ip, spec.ports, self._readiness, clock, eager=True).run())
            if spec.liveness_probe is not None:
                report = self._vital(spec.liveness_probe, "Liveness")
                loops.create_task(ProbeLoop(spec.liveness_probe, ip, spec.ports, report, clock, eager=False).run())

    def _readiness(self, passed: bool, problem: str) -> None:
        if not passed:
            self._host.record_event(True, "Unhealthy", f"Readiness probe failed: {problem}")
        self._set(replace(self.status, ready=passed))

    def _vital(self, probe: Probe, kind: str) -> Callable[[bool, str], None]:
        """Handle the results of a probe whose failure ends the attempt."""

        def report(passed: bool, problem: str) -> None:
            if passed or self._grace is not None:
                return
            self._host.record_event(True, "Unhealthy", f"{kind} probe failed: {problem}")
            self._host.record_event(False, "Killing", f"Container {self.spec.name} failed {kind.lower()} probe, will be restarted")
            probe_grace = probe.termination_grace_period_seconds
            self._request_stop(self.container_policy.grace if probe_grace is None else float(probe_grace))

        return report

    def _message(self, environment: PodEnvironment, code: int, attempt: int) -> str:
        """The termination message that the program left."""
        path = environment.path(self.spec.termination_message_path)
        with contextlib.suppress(OSError), confined(environment.confinement), own(path).open("rb") as file:
            return file.read(4096).decode(errors="replace")
        if code and self.spec.termination_message_policy == "FallbackToLogsOnError":
            return containerlog.last_lines(self.logs, attempt)
        return ""


async def _guarded(program: Program, arguments: Sequence[str], environment: PodEnvironment) -> int:
    """The exit code, however the program ends; its exception goes into its log and no further."""
    with diverted(lambda text: environment.write("stderr", text)), confined(environment.confinement):
        try:
            return int(await program(arguments, environment) or 0)
        except SystemExit as leaving:
            if isinstance(leaving.code, str):
                environment.print(leaving.code, stream="stderr")
            return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        except Exception:
            environment.print(traceback.format_exc(), stream="stderr")
            return 1


def _code(task: asyncio.Task[int]) -> int:
    return TERMINATED_BY_REQUEST if task.cancelled() else task.result()


def _last(status: ContainerStatus) -> Terminated | None:
    return status.state if isinstance(status.state, Terminated) else status.last


def _shown(seconds: float) -> str:
    """In Go's notation of durations."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
