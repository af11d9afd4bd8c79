"""The state machine under all certificates: by profile, and over a channel whose signer takes its time and keeps no record."""

import random
from datetime import timedelta

import pytest

from muster.api.resource import Document
from muster.kube import certificates
from muster.registration.drivers.certificates.certificate_manager import (
    REFUSED_PAUSE,
    UNHEARD_PAUSE,
    CertificateMachine,
    Draw,
    PendingRequest,
    RequestState,
)
from muster.registration.drivers.certificates.profile import CertificateProfile
from muster.registration.drivers.certificates.requests import is_for, new_key, request_object, signing_request_of
from muster.registration.drivers.certificates.signing_requests import SigningRequests
from muster.registration.drivers.interfaces import StepResult, WatchTarget
from tests.support.fake_clock import FakeClock
from tests.unit.registration.drivers.scripted_hub import ScriptedHub

ADDON = CertificateProfile(
    "system:open-cluster-management:cluster:cluster1:addon:metrics:agent:metrics",
    frozenset({"system:open-cluster-management:cluster:cluster1:addon:metrics"}),
    "addon-cluster1-metrics-",
    "open-cluster-management.io/cluster-name=cluster1,open-cluster-management.io/addon-name=metrics",
    {"open-cluster-management.io/cluster-name": "cluster1", "open-cluster-management.io/addon-name": "metrics"},
    hosts=("metrics.addon.open-cluster-management.io",),
    signer="example.com/metrics",
    certificate_entry="client.crt",
    key_entry="client.key",
)


class Queue:
    """A signer somewhere else: what is submitted is pending until somebody works the queue, and nothing tells when."""

    def __init__(self, clock: FakeClock, profile: CertificateProfile = ADDON) -> None:
        self.clock = clock
        self.profile = profile
        self.authority = certificates.CertificateAuthority.create("elsewhere", clock.now())
        self.submitted: dict[str, bytes] = {}
        self.answers: dict[str, RequestState] = {}
        self.asked = 0

    async def are_many(self, most: int) -> bool:
        return len(self.submitted) >= most

    async def find(self, name: str, key: bytes) -> RequestState | None:
        self.asked += 1
        return self.answers.get(name, RequestState()) if name in self.submitted else None

    async def submit(self, name: str, key: bytes) -> RequestState:
        self.submitted[name] = key
        return RequestState()

    def read(self, seen: Document, name: str, key: bytes) -> RequestState | None:
        return None

    def watched(self, name: str) -> WatchTarget | None:
        return None

    def work(self, life: timedelta = timedelta(days=1)) -> None:
        """Sign what is in the queue."""
        for name, key in self.submitted.items():
            request = signing_request_of(request_object(name, self.profile, key)["spec"])
            now = self.clock.now()
            issued = self.authority.sign(request.subject, request.public_key(), now, now + life, (certificates.CLIENT_AUTH,))
            self.answers.setdefault(name, RequestState(certificate=issued))


class Holder:
    """Whoever has the Secrets."""

    def __init__(self, clock: FakeClock, profile: CertificateProfile = ADDON) -> None:
        self.machine = CertificateMachine(profile, clock, random.Random(1).random)
        self.stored: dict[str, bytes] = {}
        self.pending: dict[str, bytes] = {}

    async def settle(self, channel: Queue | SigningRequests) -> StepResult:
        while True:
            progress = await self.machine.advance(channel, self.stored, self.pending)
            if progress.credential is not None:
                self.stored, self.pending = dict(progress.credential), {}
            changed = {**self.pending, **progress.pending}
            self.pending = {key: value for key, value in changed.items() if value is not None}
            if progress.again != 0:
                return progress


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_a_profile_decides_signer_subject_names_labels_and_entries(clock: FakeClock) -> None:
    hub, holder = ScriptedHub(clock), Holder(clock)
    waiting = await holder.settle(SigningRequests(hub.client, ADDON))
    [(name, csr)] = hub.requests.items()
    assert name.startswith("addon-cluster1-metrics-")
    assert waiting.watch is not None
    assert waiting.watch.name == name
    assert csr["spec"]["signerName"] == "example.com/metrics"
    assert csr["metadata"]["labels"] == ADDON.labels
    assert is_for(csr, ADDON, holder.pending["key"])
    names = [extension.value for extension in signing_request_of(csr["spec"]).extensions]
    assert "metrics.addon.open-cluster-management.io" in str(names)
    hub.issue(name)
    await holder.settle(SigningRequests(hub.client, ADDON))
    assert sorted(holder.stored) == ["client.crt", "client.key"]
    assert holder.machine.problem(holder.stored) == ""
    assert holder.machine.problem({"tls.crt": holder.stored["client.crt"], "tls.key": holder.stored["client.key"]})


async def test_a_request_in_somebodys_queue_is_waited_for_and_made_once(clock: FakeClock) -> None:
    queue, holder = Queue(clock), Holder(clock)
    for _ in range(3):
        progress = await holder.settle(queue)
        assert (progress.again, progress.watch, progress.credential) == (UNHEARD_PAUSE, None, None)
        await clock.advance(UNHEARD_PAUSE)
    assert len(queue.submitted) == 1
    queue.work()
    await holder.settle(queue)
    assert holder.machine.problem(holder.stored) == ""
    assert holder.pending == {}


async def test_what_a_queue_has_lost_is_submitted_again_under_its_name(clock: FakeClock) -> None:
    queue, holder = Queue(clock), Holder(clock)
    await holder.settle(queue)
    before = dict(queue.submitted)
    queue.submitted.clear()
    await holder.settle(queue)
    assert queue.submitted == before


async def test_a_refusal_without_a_record_is_counted_from_when_it_was_seen(clock: FakeClock) -> None:
    queue, holder = Queue(clock), Holder(clock)
    await holder.settle(queue)
    [refused] = queue.submitted
    queue.answers[refused] = RequestState(refusal="not you")
    progress = await holder.settle(queue)
    assert progress.report is not None
    assert "not you" in progress.report.message
    await clock.advance(REFUSED_PAUSE / 2)
    await holder.settle(queue)
    assert list(queue.submitted) == [refused]
    await clock.advance(REFUSED_PAUSE / 2)
    await holder.settle(queue)
    assert len(queue.submitted) == 2


async def test_what_to_do_next_follows_from_what_is_stored_and_pending_alone(clock: FakeClock) -> None:
    queue, holder = Queue(clock), Holder(clock)
    key = new_key()
    assert holder.machine.next_step({}, {}) == Draw()
    begun = {"key": key, "name": b"addon-cluster1-metrics-aaaaa"}
    assert holder.machine.next_step({}, begun) == PendingRequest("addon-cluster1-metrics-aaaaa", key)
    await holder.settle(queue)
    queue.work()
    await holder.settle(queue)
    rest = holder.machine.next_step(holder.stored, {})
    assert isinstance(rest, StepResult)
    assert rest.again is not None
    assert rest.again > 0
    done = {"key": holder.stored["client.key"], "name": b"addon-cluster1-metrics-aaaaa"}
    forget = holder.machine.next_step(holder.stored, done)
    assert isinstance(forget, StepResult)
    assert forget.pending == {"key": None, "name": None}
