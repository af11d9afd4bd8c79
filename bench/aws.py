"""Registration through AWS IAM, ours and upstream's: what a cluster costs in calls of AWS.

    python -m bench aws [--short]

Each hub in turn gets an empty kube-apiserver and is a cluster of one local AWS, which writes down every call; it has the identity
that its service account has, by the role that `clusteradm aws prerequisites hub` makes. Nobody else asks AWS for anything in the
hub's account: clusters are ManagedClusters without agents, whose status is written here. Sessions are not counted (they cost one
call in most of an hour, however many clusters there are), nor is our question for the authentication mode, which is one for all.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.administrator import ACCEPTED, MANAGED_CLUSTERS, Administrator, managed_cluster
from tests.support.aws_thread import AwsThread
from tests.support.local_aws import REGION, make_managed_role

from bench.hubs import Hub, Ours, Upstream
from bench.report import Row
from muster.api.cluster.v1 import ManagedCluster
from muster.api.operator.v1 import AwsIrsaHubDriver, HubRegistrationDriver
from muster.aws.arns import EksCluster
from muster.aws.process_env import ProcessEnv
from muster.aws.role_names import RoleNames
from muster.registration.drivers.awsirsa.claims import marked
from muster.registration.drivers.awsirsa.driver import DRIVER
from muster.registration.drivers.interfaces import AcceptanceContext
from muster.registration.kinds import MANAGED_CLUSTERS as GVR_CLUSTERS
from muster.runtime.client import load_kubeconfig
from muster.runtime.client.http import HttpClient

TITLE = "Registration through AWS IAM"
TEXT = """
`muster hub` and upstream's registration controller (OCM v1.2.1) with the driver `awsirsa`, each on its own kube-apiserver, with
one local AWS, whose call log is evaluated. Counted are all calls of the hub's role, per cluster, except those for its own
session and our single request for the authentication mode. Clusters are mapped by access entries, as upstream does, and for
ours also by `aws-auth`. An hour of status updates is sixty changes of a ManagedCluster's status, with enough time for the hub
to observe each.
"""
HUB_ACCOUNT, MANAGED_ACCOUNT = "111111111111", "222222222222"
DRIVERS = "--enabled-registration-drivers=csr,awsirsa"
ONCE = "eks:DescribeCluster"
"""Asked once for all clusters, by ours."""
BETWEEN_UPDATES = 0.5


@dataclass(frozen=True)
class Calls:
    """What was asked of AWS for a hub, per cluster."""

    accept: float
    hour: float
    restart: float
    delete: float


class OnAws(Hub):
    """A hub that is a cluster of EKS."""

    def __init__(self, directory: Path, aws: AwsThread) -> None:
        super().__init__(directory)
        self.aws = aws
        self.arn = EksCluster("aws", REGION, HUB_ACCOUNT, type(self).__name__.lower())
        # By which AWS tells the clusters' service accounts apart.
        self.plane.options.issuer = f"https://{self.arn.name}.example"

    def environment(self) -> dict[str, str]:
        self.aws.register(self.arn, self.plane.cluster)
        return {**super().environment(), **self.aws.by_names(self.aws.hub_pod(self.arn, self.admin))}


class OursByEntries(OnAws, Ours):
    mapping = "access-entry"

    def __init__(self, directory: Path, aws: AwsThread) -> None:
        super().__init__(directory, aws)
        own = (f"--hub-cluster-arn={self.arn}", "--aws-identity=hub", f"--aws-mapping={self.mapping}")
        self.drivers = (DRIVERS, *own)


class OursByAwsAuth(OursByEntries):
    name = "muster, by aws-auth"
    mapping = "aws-auth"

    def install(self) -> None:
        super().install()
        self.admin.post("/api/v1/namespaces/kube-system/configmaps", {"metadata": {"name": "aws-auth"}}).expect(201)


class UpstreamOnAws(OnAws, Upstream):
    def __init__(self, directory: Path, aws: AwsThread) -> None:
        super().__init__(directory, aws)
        self.extra = (DRIVERS, f"--hub-cluster-arn={self.arn}")


def run(short: bool = False, say: Callable[[str], None] = print) -> list[Row]:
    count, updates, settle = (2, 3, 1.0) if short else (5, 60, 5.0)
    kinds: list[type[OnAws]] = [OursByEntries, OursByAwsAuth, UpstreamOnAws]
    found: dict[type[OnAws], Calls] = {}
    looked = 0.0
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name, AwsThread(Path(name) / "aws") as aws:
        for kind in kinds:
            say(f"{count} clusters of {kind.name} …")
            hub = kind(Path(name) / kind.__name__, aws)
            try:
                hub.start()
                measuring = Measuring(hub, count, settle, say)
                found[kind] = measuring.calls(updates)
                if kind is OursByEntries:
                    looked = measuring.looks()
            finally:
                hub.discard()
    ours, by_map, theirs = (found[kind] for kind in kinds)

    def row(title: str, figure: Callable[[Calls], float], limit: float) -> Row:
        return Row(title, "calls", figure(ours), figure(theirs), "less", limit=limit)

    return [
        row("a cluster is accepted", lambda calls: calls.accept, 3),
        Row("a cluster is accepted, mapped by aws-auth", "calls", by_map.accept, theirs.accept, "less", limit=3),
        Row("the hub looks at what an administrator made", "calls", looked, None, "less", limit=3),
        row("an hour of status updates of a cluster", lambda calls: calls.hour * 60 / updates, 0),
        row("the hub starts again, per cluster", lambda calls: calls.restart, 0),
        row("a cluster is deleted", lambda calls: calls.delete, 5),
        Row("a cluster is deleted, mapped by aws-auth", "calls", by_map.delete, theirs.delete, "less", limit=5),
    ]


class Measuring:
    """A hub that runs, and clusters that are accepted, tell how they are, and go."""

    def __init__(self, hub: OnAws, count: int, settle: float, say: Callable[[str], None]) -> None:
        self._hub = hub
        self._settle = settle
        self._say = say
        self._person = Administrator(hub.plane.cluster)
        self._person.servers.append(hub.server)
        names = [f"managed-{number}" for number in range(count)]
        self._pairs = {name: RoleNames(hub.arn, EksCluster("aws", REGION, MANAGED_ACCOUNT, name)) for name in names}
        for pair in self._pairs.values():
            hub.aws.run(make_managed_role(hub.aws.aws, pair, "https://managed.example", ["system:serviceaccount:a:b"]))

    def calls(self, updates: int) -> Calls:
        return Calls(
            self._asked("accept", self._accept),
            self._asked("an hour", lambda: self._update(updates)),
            self._asked("restart", self._restart),
            self._asked("delete", self._delete),
        )

    def looks(self) -> float:
        """What the hub asks where an administrator accepts clusters with an AWS identity of their own, beside what they ask."""
        for name in self._pairs:
            self._create(name, accepted=False)
        asyncio.run(self._prepare())
        return self._asked("look at what an administrator made", self._let_in)

    def _asked(self, what: str, work: Callable[[], None]) -> float:
        mark = len(self._hub.aws.calls())
        work()
        time.sleep(self._settle)
        calls = self._hub.aws.asked(HUB_ACCOUNT, mark)
        calls -= Counter({ONCE: calls[ONCE]})
        self._say(f"  {what}: {dict(calls) or 'nothing'}")
        return calls.total() / len(self._pairs)

    def _create(self, name: str, *, accepted: bool) -> None:
        cluster = managed_cluster(name, accepted=accepted)
        cluster["metadata"]["annotations"] = dict(marked(self._pairs[name]))
        self._person.admin.post(MANAGED_CLUSTERS, cluster).expect(201)

    def _accept(self) -> None:
        for name in self._pairs:
            self._create(name, accepted=True)
        self._until_accepted()

    def _let_in(self) -> None:
        for name in self._pairs:
            self._person.set_accepted(name, True)
        self._until_accepted()

    def _until_accepted(self) -> None:
        for name in self._pairs:
            self._person.wait_condition(name, ACCEPTED, timeout=60)

    async def _prepare(self) -> None:
        """As `clusteradm accept` does before it lets them in."""
        configured = AwsIrsaHubDriver(hub_cluster_arn=str(self._hub.arn), mapping="access-entry", identity="administrator")
        identity = ProcessEnv(self._hub.aws.administrator(HUB_ACCOUNT))
        client = HttpClient(load_kubeconfig(self._hub.plane.kubeconfig))
        accepting = AcceptanceContext(
            client, HubRegistrationDriver(auth_type="awsirsa", awsirsa=configured), identity, lambda _: None
        )
        try:
            for name in self._pairs:
                await DRIVER.prepare_acceptance(ManagedCluster.decode(await client.get(GVR_CLUSTERS, name)), accepting)
        finally:
            await client.close()

    def _update(self, updates: int) -> None:
        for number in range(updates):
            for name in self._pairs:
                status = {"status": {"capacity": {"cpu": str(number + 1)}}}
                self._person.admin.patch(f"{MANAGED_CLUSTERS}/{name}/status", status).expect(200)
            time.sleep(BETWEEN_UPDATES)

    def _restart(self) -> None:
        """It is at work again when it has accepted a cluster that has nothing to do with AWS."""
        self._hub.server.stop()
        self._hub.server.start()
        self._person.admin.post(MANAGED_CLUSTERS, managed_cluster("plain", accepted=True)).expect(201)
        self._person.wait_condition("plain", ACCEPTED, timeout=60)

    def _delete(self) -> None:
        for name in self._pairs:
            self._person.delete(name)
        for name in self._pairs:
            self._person.wait_gone(name, timeout=120)
