"""Runs growing requests against a server and says which of them cost too much.

The rules: from a small size to the limit the cost grows in step with the size (a quadratic one would show as the square), at the
limit it stays under a second or under three times what a real server takes for the same request, an answer never outgrows
what was asked by much, and a bystander is served meanwhile.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.fuzz.cost.case import Case
from tests.fuzz.cost.meter import Sample, Waits, bystander, measure
from tests.fuzz.run import is_fault
from tests.fuzz.session import rss
from tests.support.client import Client
from tests.support.planes import USERS, ControlPlane, KubePlane

MOST_SECONDS = 1.0
TIMES_REAL = 3.0
STEEPEST = 1.35
"""The exponent a cost may grow with; measurements scatter."""
UNSEEN = 0.05
"""Seconds below which a cost is not worth an exponent."""
MOST_ANSWER = 4 << 20
"""Bytes of a refusal; what was accepted may be as large as the object that comes of it."""
PATIENCE = 0.1
"""Seconds of the server's time that 99 of 100 small requests of somebody else may wait."""

LONGEST_WAIT = 0.5
"""And the hundredth."""


_MOST_MEMORY = 2 << 30
"""Bytes of a real server that goes on: it keeps what a costly request took, and a dozen of them filled the machine."""
_LONGEST_ANSWER = 1_800
"""Seconds on the clock, which mean little where others keep the machine busy: costs are processor time."""


@dataclass
class Finding:
    case: Case
    samples: list[Sample]
    problem: str
    waited: float = 0.0
    """Seconds of the server's time that a bystander waited at most meanwhile."""

    def __str__(self) -> str:
        shown = ", ".join(f"{sample.size >> 10} KiB: {sample.seconds:.2f} s" for sample in self.samples)
        last = self.samples[-1].reply
        answer = f"{last.status}, {len(last.body)} bytes, others waited {self.waited:.2f} s"
        return f"{self.case.name}: {self.problem or 'fine'} ({shown}; {answer})"


@dataclass
class Verdict:
    measured: int = 0
    findings: list[Finding] = field(default_factory=list)
    slowest: list[tuple[float, str]] = field(default_factory=list)
    waits: Waits = field(default_factory=Waits)
    seconds: float = 0.0

    def problems(self) -> list[str]:
        found = [str(finding) for finding in self.findings]
        waited = Waits.p99(self.waits.processor)
        if waited > PATIENCE:
            found.append(f"a bystander waited for {waited:.3f} s of the server's time (p99 of {len(self.waits.processor)})")
        return found


class Court:
    """Judges cases on one plane; with `real`, a cost beyond the limit is compared with that server's for the same request."""

    def __init__(self, plane: ControlPlane, pid: int, real: KubePlane | None = None) -> None:
        self._plane, self._pid, self._real = plane, pid, real
        self.verdict = Verdict()

    def judge(self, cases: Iterable[Case], shares: tuple[int, ...], told: Callable[[str], None] | None = None) -> Verdict:
        """Each case at these shares (1/16, …, 1 of its limit), with a bystander all the while."""
        began = time.monotonic()
        client = self._plane.client(timeout=_LONGEST_ANSWER)
        with bystander(self._plane, self._pid, self.verdict.waits):
            for case in cases:
                asked_before = len(self.verdict.waits.processor)
                samples = self._measured(client, self._pid, case, shares)
                waited = max(self.verdict.waits.processor[asked_before:], default=0.0)
                problem = self._problem(case, samples)
                if not problem and waited > LONGEST_WAIT:
                    problem = "keeps others waiting"
                self.verdict.measured += 1
                self.verdict.slowest.append((samples[-1].seconds, case.name))
                finding = Finding(case, samples, problem, waited)
                if problem:
                    self.verdict.findings.append(finding)
                if told is not None:
                    told(str(finding))
        self.verdict.seconds += time.monotonic() - began
        client.close()
        return self.verdict

    @staticmethod
    def _measured(client: Client, pid: int, case: Case, shares: tuple[int, ...]) -> list[Sample]:
        samples = []
        for share in shares:
            size = case.limit // share
            if case.before is not None:
                case.before(client, size)
            samples.append(measure(client, pid, case.ask(size), USERS[case.user].token))
            if case.after is not None:
                case.after(client)
        return samples

    def _problem(self, case: Case, samples: list[Sample]) -> str:
        first, last = samples[0], samples[-1]
        if is_fault(last.reply.status, last.reply.body):
            return f"answered {last.reply.status}: {last.reply.text[:200]}"
        if last.reply.status >= 400 and len(last.reply.body) > MOST_ANSWER:
            return f"a refusal of {len(last.reply.body) >> 20} MiB"
        if last.seconds > MOST_SECONDS and (real := self._real_seconds(case)) * TIMES_REAL < last.seconds:
            return f"costs {last.seconds:.2f} s, the real server {real:.2f} s" if real else f"costs {last.seconds:.2f} s"
        if last.seconds > UNSEEN and last.size >= 2 * first.size > 0:
            exponent = math.log(last.seconds / max(first.seconds, 0.002)) / math.log(last.size / first.size)
            if exponent > STEEPEST:
                return f"grows with the power {exponent:.2f}"
        return ""

    def _real_seconds(self, case: Case) -> float:
        """What a real server needs for the case at its limit; nothing where there is none to ask."""
        if self._real is None:
            return 0.0
        pid = self._real.pids["kube-apiserver"]
        client = self._real.client(timeout=_LONGEST_ANSWER)
        try:
            return self._measured(client, pid, case, (1,))[0].seconds
        finally:
            client.close()
            if rss(pid) > _MOST_MEMORY:
                self._real.restart()
