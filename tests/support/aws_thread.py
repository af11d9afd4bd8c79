"""A local AWS on a loop in a thread of its own, for whoever waits by blocking; and clusters of a test that it knows as EKS'.

Programs of all sorts are its clients: they get variables, a CA's file and a service account's token in a file, as EKS gives them
to pods (`hub_pod`, `agent_pod`). Where AWS is, one variable says; programs that do not heed it everywhere, AWS' library for Go
among them, find this AWS under the names that AWS itself has, by a proxy (`by_names`).

A cluster's API server has its tokens judged by it (`webhook`, which has to be there before the server starts).
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from muster.administration.aws.prerequisites import Agents, WantedRole, apply, hub_role, managed_role
from muster.aws.arns import EksCluster
from muster.aws.identity import connect
from muster.aws.interfaces import ClusterDescription
from muster.aws.policies import AUDIENCE
from muster.aws.process_env import ENDPOINT_URL, ROLE_ARN, TOKEN_FILE, ProcessEnv
from muster.aws.role_names import RoleNames
from muster.fleet.aws import CallRecord, LocalAws, LocalAwsConfig
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import load_kubeconfig
from muster.runtime.client.http import HttpClient
from tests.support.client import Client
from tests.support.local_aws import REGION
from tests.support.planes import Cluster
from tests.support.proxy import Proxy
from tests.support.token_attacks import OTHER_REGIONS_STS, STS

T = TypeVar("T")
NAMES = (STS, OTHER_REGIONS_STS, f"eks.{REGION}.amazonaws.com", "iam.amazonaws.com")
RBAC = "rbac.authorization.k8s.io"


class AwsThread:
    """Use as a context manager."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(0o700, parents=True, exist_ok=True)
        self.aws = LocalAws(LocalAwsConfig(directory, host_names=NAMES))
        self._issuers: dict[EksCluster, str] = {}
        self._tokens = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> AwsThread:
        self._thread.start()
        self.run(self.aws.start())
        self.proxy = Proxy({f"{name}:443": f"127.0.0.1:{self.aws.port}" for name in NAMES}).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.__exit__()
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        await self.aws.stop(grace=0.1)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Where the AWS lives, whose state is nobody else's to touch meanwhile."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    @property
    def ca_file(self) -> Path:
        assert self.aws.ca_file is not None, "it has a directory"
        return self.aws.ca_file

    # Clusters

    def webhook(self, arn: EksCluster) -> Path:
        """The kubeconfig by which the cluster's API server has tokens judged."""
        path = self.directory / f"{arn.name}.webhook"
        path.write_bytes(self.aws.webhook_kubeconfig(str(arn), self.ca_file))
        return path

    def register(self, arn: EksCluster, cluster: Cluster, mode: str = "API_AND_CONFIG_MAP") -> None:
        """Makes a cluster EKS', which publishes its keys and is trusted by its account."""
        admin = cluster.client()
        binding = {
            "metadata": {"name": "published"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:service-account-issuer-discovery"},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:unauthenticated"}],
        }
        admin.post(f"/apis/{RBAC}/v1/clusterrolebindings", binding).expect(201, 409)
        issuer = str(admin.get("/.well-known/openid-configuration").expect(200)["issuer"])
        admin.close()
        described = ClusterDescription(str(arn), cluster.url, cluster.ca.read_bytes(), mode, issuer)
        self.run(self.aws.register_cluster(described))
        self.run(self.aws.trust_issuer(arn.account, issuer))
        self._issuers[arn] = issuer

    @contextmanager
    def following_aws_auth(self, arn: EksCluster, kubeconfig: Path) -> Iterator[None]:
        """The cluster's `aws-auth` counts meanwhile."""
        watching = self._watching(arn, kubeconfig)
        self.run(watching.__aenter__())
        try:
            yield
        finally:
            self.run(watching.__aexit__(None, None, None))

    @asynccontextmanager
    async def _watching(self, arn: EksCluster, kubeconfig: Path) -> AsyncIterator[None]:
        client = HttpClient(load_kubeconfig(kubeconfig, environ={}))
        watch = self.aws.watch_aws_auth(str(arn), client)
        task = asyncio.ensure_future(watch.run())
        await watch.synced()
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.close()

    # Whoever asks it

    def administrator(self, account: str) -> dict[str, str]:
        """The variables of an account's administrator."""
        return self.aws.environ(REGION, self.run(self.aws.administrator(account)))

    def hub_pod(self, hub: EksCluster, admin: Client) -> dict[str, str]:
        """The variables of the hub's own pods, with a role as `clusteradm aws prerequisites hub` makes it."""
        role = hub_role(hub, self._issuers[hub])
        self.run(self._apply(role))
        return self._pod(admin, HUB_NAMESPACE, "registration-controller-sa", role.arn)

    def agent_pod(self, pair: RoleNames, admin: Client, namespace: str) -> dict[str, str]:
        """Those of a managed cluster's registration agent."""
        role = managed_role(pair, self._issuers[pair.managed], Agents(namespace=namespace))
        self.run(self._apply(role))
        return self._pod(admin, namespace, "klusterlet-registration-sa", role.arn)

    async def _apply(self, role: WantedRole) -> None:
        """As an administrator of the account."""
        client = connect(ProcessEnv(self.aws.environ(REGION, await self.aws.administrator(role.account))), REGION)
        try:
            await apply(client, role)
        finally:
            await client.close()

    def _pod(self, admin: Client, namespace: str, account: str, role_arn: str) -> dict[str, str]:
        file = self.directory / f"{account}-{next(self._tokens)}.token"
        request = {"spec": {"audiences": [AUDIENCE], "expirationSeconds": 7200}}
        made = admin.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", request).expect(201)
        file.write_text(made["status"]["token"])
        return {**self.aws.environ(REGION), ROLE_ARN: role_arn, TOKEN_FILE: str(file)}

    def by_names(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The same variables, for a program that goes to AWS by its names."""
        named = {name: value for name, value in environment.items() if name != ENDPOINT_URL}
        return {**named, "HTTPS_PROXY": self.proxy.url, "NO_PROXY": "127.0.0.1"}

    # What it was asked

    def calls(self) -> list[CallRecord]:
        async def listed() -> list[CallRecord]:
            return list(self.aws.calls)

        return self.run(listed())

    def asked(self, account: str, since: int = 0) -> Counter[str]:
        """Operations that identities of an account asked for, from that call on; of sessions none."""
        return Counter(
            one.operation for one in self.calls()[since:] if one.account == account and not one.operation.startswith("sts:")
        )
