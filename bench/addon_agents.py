"""What leases of addons cost: one managed cluster with 200 addons whose leases others renew, and the registration agents' requests.

Both agents (`bench.agents`) live on the same hub and have the same addons; what is counted is what each asks of its own cluster and
of the hub while every lease is renewed once a minute, as addons' agents do it.
"""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tests.interop import ocm
from tests.support.client import Client

from bench.agents import OURS, THEIRS, Pair, joined, whose
from bench.audit import Request, by_party
from bench.report import Row

ADDONS = "/apis/addon.open-cluster-management.io/v1alpha1"
PLACE = "open-cluster-management-agent-addon"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{PLACE}/leases"
OWN_USER = f"system:serviceaccount:{ocm.AGENT_NAMESPACE}:klusterlet-registration-sa"
EVERY = 60.0
WITHIN = 120.0


def run(short: bool = False, say: Callable[[str], None] = print) -> list[Row]:
    count, settle, idle = (5, 1.0, 3.0) if short else (200, 60.0, 300.0)
    say(f"an agent of each side with {count} leases of addons …")
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name, joined(Path(name)) as pair:
        names = [f"addon{number:03d}" for number in range(count)]
        for cluster in (OURS, THEIRS):
            ocm.create(pair.plane.extra(cluster).client(), "/api/v1/namespaces", {"metadata": {"name": PLACE}})
        with _renewed(pair, names):
            for cluster in (OURS, THEIRS):
                _install(pair.hub.admin, cluster, names)
            for cluster in (OURS, THEIRS):
                _wait_available(pair, cluster, count)
            time.sleep(settle)
            return _measured(pair, count, idle, say)


def _install(admin: Client, cluster: str, names: list[str]) -> None:
    place = f"{ADDONS}/namespaces/{cluster}/managedclusteraddons"
    for name in names:
        kind = {"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn"}
        admin.post(place, {**kind, "metadata": {"name": name}, "spec": {}}).expect(201)
        admin.patch(f"{place}/{name}/status", {"status": {"namespace": PLACE, "healthCheck": {"mode": "Lease"}}}).expect(200)


def _wait_available(pair: Pair, cluster: str, count: int) -> None:
    place = f"{ADDONS}/namespaces/{cluster}/managedclusteraddons"
    pair.agents[cluster].wait_until(lambda: _available(pair.hub.admin, place) == count, WITHIN, poll=1.0)


def _available(admin: Client, place: str) -> int:
    addons = admin.get(place).expect(200)["items"]
    conditions = [one for addon in addons for one in (addon.get("status") or {}).get("conditions") or ()]
    return sum(one["type"] == "Available" and one["status"] == "True" for one in conditions)


@contextmanager
def _renewed(pair: Pair, names: list[str]) -> Iterator[None]:
    """Every lease is there, and is renewed every minute by its addon."""
    over = threading.Event()
    clients = [pair.plane.extra(cluster).client() for cluster in (OURS, THEIRS)]
    for name in names:
        for client in clients:
            client.post(LEASES, {"metadata": {"name": name}, "spec": _lease()}).expect(201)

    def renew() -> None:
        # One after the other: addons do not renew all at the same moment either.
        for name in itertools.cycle(names):
            if over.wait(EVERY / len(names)):
                return
            for client in clients:
                client.patch(f"{LEASES}/{name}", {"spec": _lease()}).expect(200)

    renewing = threading.Thread(target=renew, name="addons")
    renewing.start()
    try:
        yield
    finally:
        over.set()
        renewing.join()


def _lease() -> dict[str, object]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"leaseDurationSeconds": int(EVERY), "renewTime": now}


def _measured(pair: Pair, count: int, idle: float, say: Callable[[str], None]) -> list[Row]:
    hub_mark, own_mark = pair.hub.audit.mark(), pair.own_log.mark()
    time.sleep(idle)
    to_hub, to_own = by_party(pair.hub.audit.requests(hub_mark), whose), by_party(pair.own_log.requests(own_mark), _own)
    for name in (OURS, THEIRS):
        say(f"  {name} asked its own cluster {dict(to_own.get(name, Counter()))}, the hub {dict(to_hub.get(name, Counter()))}")

    def row(title: str, asked: dict[str, Counter[str]], limit: float | None = None) -> Row:
        ours, theirs = (asked.get(name, Counter()).total() * 60 / idle for name in (OURS, THEIRS))
        return Row(f"{count} addons with leases: {title}", "/min", ours, theirs, "less", limit=limit)

    return [
        row("requests of an agent to its own cluster", to_own, 5.0),
        row("requests of an agent to the hub", to_hub),
    ]


def _own(request: Request) -> str:
    return request.cluster if request.user == OWN_USER else ""
