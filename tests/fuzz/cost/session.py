"""`python -m tests.fuzz cost`: every growing request at several sizes up to the limit, beside a real server where one is built."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.cost.case import Case
from tests.fuzz.cost.extensions import EXTENSIONS
from tests.fuzz.cost.fields import FIELDS
from tests.fuzz.cost.judge import Court, Verdict
from tests.fuzz.cost.meter import Waits
from tests.fuzz.cost.named import NAMED
from tests.fuzz.cost.things import set_the_scene
from tests.fuzz.cost.verbs import METADATA, PATCHES, READS
from tests.support import peers
from tests.support.planes import ControlPlane, EmbeddedPlane, KubeOptions, KubePlane

SHARES = (16, 4, 1)
"""Parts of the limit that are sent: a linear cost grows fourfold each time."""
FIELD_SHARES = (16, 1)
ATTACKS: list[Case] = [*NAMED, *METADATA, *PATCHES, *READS, *EXTENSIONS]
"""Those that were thought of; FIELDS are those that were looked for."""


@contextmanager
def _running(plane: ControlPlane) -> Iterator[ControlPlane]:
    plane.start()
    client = plane.client()
    try:
        set_the_scene(client)
        yield plane
    finally:
        client.close()
        plane.discard()


def run(match: str = "", skip: int = 0) -> Verdict:
    """Judge everything whose name has `match` in it, after the first `skip` of them, and say what came of each."""
    directory = Path(tempfile.mkdtemp(prefix="muster-cost-"))
    with _running(EmbeddedPlane(directory / "embedded", ())) as plane:
        assert isinstance(plane, EmbeddedPlane)
        if peers.find("kube-apiserver") is None:
            return _judged(Court(plane, plane.pid), match, skip)
        with _running(KubePlane(directory / "kube", KubeOptions(fsync=False))) as real:
            assert isinstance(real, KubePlane)
            return _judged(Court(plane, plane.pid, real), match, skip)


def _judged(court: Court, match: str, skip: int) -> Verdict:
    for cases, shares in ((ATTACKS, SHARES), (FIELDS, FIELD_SHARES)):
        chosen = [case for case in cases if match in case.name]
        court.judge(chosen[skip:], shares, _tell)
        skip = max(0, skip - len(chosen))
    return court.verdict


def _tell(text: str) -> None:
    print(text, flush=True)


def report(verdict: Verdict) -> int:
    print(f"{verdict.measured} growing requests in {verdict.seconds:.0f} s")
    waits = verdict.waits
    print(
        f"a bystander's p99: {Waits.p99(waits.processor):.3f} s of the server's time, {Waits.p99(waits.clock):.3f} s on the clock"
    )
    for seconds, name in sorted(verdict.slowest, reverse=True)[:10]:
        print(f"{seconds:6.2f} s  {name}")
    problems = verdict.problems()
    for problem in problems:
        print(f"=== {problem}")
    return 1 if problems else 0
