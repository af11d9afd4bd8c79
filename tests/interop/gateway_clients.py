"""Python's Kubernetes clients by way of a gateway: run in `.venv-clients`, against any hub whose clusters can be reached by one.

    .venv-clients/bin/python tests/interop/gateway_clients.py KUBECONFIG CONTEXT CLUSTER CLUSTER UNKNOWN

The current directory has our sources in PYTHONPATH. Each of the two clusters has a ConfigMap `default/which` that says in
`data.cluster` which one it is; UNKNOWN is the name of none. Every client reads it from both, writes and deletes one of its own,
and is refused. One line of JSON for each tells how it went.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from urllib.parse import urlsplit

from muster.gateway.client import ClusterResult, ClusterUnknown, Gateway, using_cluster

MAPS = "/api/v1/namespaces/default/configmaps"
PIECES = [*"abzAZ019-_~:@!$&'()*+,;=", "%2F", "%2f", "%25", "%20", "%41", "%00", "%C3%A9", "é", " ", "|", "[", "{", "<", "`"]
KIND = {"apiVersion": "v1", "kind": "ConfigMap"}


def named(client: str) -> dict[str, Any]:
    return {**KIND, "metadata": {"name": f"by-{client}", "namespace": "default"}, "data": {"by": client}}


class Trial:
    """`clusters` are two that there are; `unknown` is none."""

    def __init__(self, gateway: Gateway, clusters: list[str], unknown: str) -> None:
        self.gateway = gateway
        self.clusters = clusters
        self.unknown = unknown

    def kubernetes(self) -> None:
        from kubernetes.client import ApiException, CoreV1Api

        for cluster in self.clusters:
            with self.gateway.kubernetes(cluster) as client:
                core = CoreV1Api(client)
                assert core.read_namespaced_config_map("which", "default").data == {"cluster": cluster}
                assert core.create_namespaced_config_map("default", named("kubernetes")).data == {"by": "kubernetes"}
                core.delete_namespaced_config_map("by-kubernetes", "default")
                self.is_missing(ApiException, partial(core.read_namespaced_config_map, "missing", "default"))
        self.is_unknown(lambda: CoreV1Api(self.gateway.kubernetes(self.unknown)).list_namespace())

    def kubernetes_watch(self) -> None:
        from kubernetes.client import CoreV1Api
        from kubernetes.watch import Watch

        for cluster in self.clusters:
            with self.gateway.kubernetes(cluster) as client:
                watch = Watch()
                events = watch.stream(
                    CoreV1Api(client).list_namespaced_config_map,
                    "default",
                    field_selector="metadata.name=which",
                    timeout_seconds=20,
                )
                event = next(iter(events))
                watch.stop()
                assert (event["type"], event["object"].data) == ("ADDED", {"cluster": cluster})

    def dynamic(self) -> None:
        for cluster in self.clusters:
            maps = self.gateway.dynamic(cluster).resources.get(api_version="v1", kind="ConfigMap")
            assert maps.get(name="which", namespace="default").data.cluster == cluster
            maps.create(body=named("dynamic"), namespace="default")
            maps.delete(name="by-dynamic", namespace="default")
        self.is_unknown(lambda: self.gateway.dynamic(self.unknown))

    async def kubernetes_aio(self) -> None:
        from kubernetes.aio.client import CoreV1Api

        for cluster in self.clusters:
            async with await self.gateway.kubernetes_aio(cluster) as client:
                core = CoreV1Api(client)
                assert (await core.read_namespaced_config_map("which", "default")).data == {"cluster": cluster}
                await core.create_namespaced_config_map("default", named("aio"))
                await core.delete_namespaced_config_map("by-aio", "default")
        async with await self.gateway.kubernetes_aio(self.unknown) as client:
            await self.is_unknown_too(CoreV1Api(client).list_namespace())

    async def kubernetes_asyncio(self) -> None:
        from kubernetes_asyncio.client import CoreV1Api

        for cluster in self.clusters:
            async with await self.gateway.kubernetes_asyncio(cluster) as client:
                core = CoreV1Api(client)
                assert (await core.read_namespaced_config_map("which", "default")).data == {"cluster": cluster}
                await core.create_namespaced_config_map("default", named("asyncio"))
                await core.delete_namespaced_config_map("by-asyncio", "default")
        async with await self.gateway.kubernetes_asyncio(self.unknown) as client:
            await self.is_unknown_too(CoreV1Api(client).list_namespace())

    def kr8s(self) -> None:
        from kr8s.objects import ConfigMap

        for cluster in self.clusters:
            api = self.gateway.kr8s(cluster)
            assert ConfigMap.get("which", namespace="default", api=api).data.to_dict() == {"cluster": cluster}
            made = ConfigMap(named("kr8s"), api=api)
            made.create()
            made.delete()
            assert [one.name for one in api.get("configmaps", "which", namespace="default")] == ["which"]
        self.is_unknown(lambda: self.gateway.kr8s(self.unknown).version())

    async def kr8s_async(self) -> None:
        from kr8s.asyncio.objects import ConfigMap

        for cluster in self.clusters:
            api = await self.gateway.kr8s_async(cluster)
            assert (await ConfigMap.get("which", namespace="default", api=api)).data.to_dict() == {"cluster": cluster}

    def lightkube(self) -> None:
        from lightkube.core.exceptions import ApiError
        from lightkube.resources.core_v1 import ConfigMap, Namespace

        for cluster in self.clusters:
            client = self.gateway.lightkube(cluster)
            assert client.get(ConfigMap, "which", namespace="default").data == {"cluster": cluster}
            client.create(ConfigMap.from_dict(named("lightkube")))
            client.delete(ConfigMap, "by-lightkube", namespace="default")
            self.is_missing(ApiError, partial(client.get, ConfigMap, "missing", namespace="default"))
        self.is_unknown(lambda: list(self.gateway.lightkube(self.unknown).list(Namespace)))

    async def lightkube_async(self) -> None:
        from lightkube.resources.core_v1 import ConfigMap

        for cluster in self.clusters:
            client = self.gateway.lightkube_async(cluster)
            assert (await client.get(ConfigMap, "which", namespace="default")).data == {"cluster": cluster}
            await client.close()

    def httpx(self, module: Any = "httpx") -> None:
        with self.gateway.rest(module=module) as client:
            for cluster in self.clusters:
                with using_cluster(cluster):
                    assert client.get(f"{MAPS}/which").json()["data"] == {"cluster": cluster}
                    assert client.post(MAPS, json=named(module)).status_code == 201
                    assert client.delete(f"{MAPS}/by-{module}").status_code == 200
            with using_cluster(self.unknown):
                self.is_unknown(lambda: client.get("/version").raise_for_status())
        with self.gateway.rest(self.clusters[0], module=module) as client:
            asked = client.build_request("GET", f"{MAPS}/which?limit=1", headers={"X-Asked": "1"})
            before = (str(asked.url), asked.headers.raw, dict(asked.extensions))
            for _ in range(2):
                assert client.send(asked).json()["data"] == {"cluster": self.clusters[0]}
            assert str(asked.url) == before[0]

    def httpx2(self) -> None:
        self.httpx("httpx2")

    async def httpx_async(self, module: Any = "httpx") -> None:
        async with self.gateway.rest_async(module=module, fallback_to_hub=True) as client:

            async def ask(cluster: str) -> str:
                answer = await client.get(f"{MAPS}/which")
                answer.raise_for_status()
                return str(answer.json()["data"]["cluster"])

            asked = [*self.clusters, self.unknown]
            found: dict[str, ClusterResult[str]] = {one.cluster: one async for one in self.gateway.fanout(asked, ask, timeout=30)}
            assert {name: found[name].unwrap() for name in self.clusters} == {name: name for name in self.clusters}
            assert isinstance(found[self.unknown].error, ClusterUnknown), found[self.unknown]
            assert (await client.get("/version")).status_code == 200, "the hub's own"

    async def httpx2_async(self) -> None:
        await self.httpx_async("httpx2")

    def raw_targets(self) -> None:
        """What a transport hands on is what the caller's library made of the address, byte for byte, behind the prefix."""
        import httpx
        import httpx2

        random, cluster = Random(17), self.clusters[0]
        base = urlsplit(self.gateway.hub_url).path
        for module in (httpx, httpx2):
            seen: list[Any] = []
            inner = module.MockTransport(lambda request, seen=seen, made=module: seen.append(request) or made.Response(200))
            transport = self.gateway.httpx_transport(cluster, inner, module=module.__name__)
            for _ in range(500):
                parts = ("".join(random.choices(PIECES, k=random.randrange(1, 6))) for _ in range(random.randrange(5)))
                query = random.choice(("", "?", "?a=%2F&b=é/?", "?watch"))
                asked = module.Request("GET", f"{self.gateway.hub_url}/{'/'.join(parts)}{query}", headers=[("A", "1"), ("A", "2")])
                before = (str(asked.url), asked.headers.raw)
                transport.handle_request(asked)
                led = seen.pop()
                inner_target = asked.url.raw_path[len(base) :]
                assert led.url.raw_path == urlsplit(self.gateway.base_url(cluster)).path.encode() + inner_target, asked.url
                assert led.headers.raw == asked.headers.raw
                assert (str(asked.url), asked.headers.raw) == before

    def requests(self) -> None:
        hub = self.gateway.hub_url
        with self.gateway.requests_session() as session:
            for cluster in self.clusters:
                with using_cluster(cluster):
                    answer = session.get(f"{hub}{MAPS}/which", params={"limit": "1"})
                    assert answer.json()["data"] == {"cluster": cluster}
                    assert answer.request.url == f"{hub}{MAPS}/which?limit=1", "as it was asked"
                    assert session.send(answer.request, verify=True).json()["data"] == {"cluster": cluster}, "and can be again"
                    assert session.post(f"{hub}{MAPS}", json=named("requests")).status_code == 201
                    assert session.delete(f"{hub}{MAPS}/by-requests").status_code == 200
            with using_cluster(self.unknown):
                self.is_unknown(lambda: session.get(f"{hub}/version").raise_for_status())

    def threads(self) -> None:
        with self.gateway.rest() as client:
            asked = self.gateway.fanout_threads(self.clusters, lambda _: client.get(f"{MAPS}/which").json()["data"], timeout=30)
            assert {one.cluster: one.unwrap() for one in asked} == {name: {"cluster": name} for name in self.clusters}

    async def aiohttp(self) -> None:
        hub = self.gateway.hub_url
        async with self.gateway.aiohttp_session() as session:
            for cluster in self.clusters:
                with using_cluster(cluster):
                    async with session.get(f"{hub}{MAPS}/which") as answer:
                        assert (await answer.json())["data"] == {"cluster": cluster}
                    async with session.post(f"{hub}{MAPS}", json=named("aiohttp")) as answer:
                        assert answer.status == 201
                    async with session.delete(f"{hub}{MAPS}/by-aiohttp") as answer:
                        assert answer.status == 200

    def is_unknown(self, ask: Callable[[], object]) -> None:
        try:
            with self.gateway.blaming(self.unknown):
                ask()
        except ClusterUnknown:
            return
        raise AssertionError("an unknown cluster answered")

    async def is_unknown_too(self, asking: Any) -> None:
        try:
            with self.gateway.blaming(self.unknown):
                await asking
        except ClusterUnknown:
            return
        raise AssertionError("an unknown cluster answered")

    def is_missing(self, kind: type[Exception], ask: Callable[[], object]) -> None:
        """What a cluster does not have stays the library's own error."""
        try:
            with self.gateway.blaming(self.clusters[0]):
                ask()
        except kind:
            return
        raise AssertionError("what is not there was found")


CLIENTS = [name for name, value in vars(Trial).items() if callable(value) and not name.startswith(("_", "is_"))]


def main(kubeconfig: str, context: str, *names: str) -> int:
    *clusters, unknown = names
    trial, failed = Trial(Gateway.from_kubeconfig(kubeconfig, context), clusters, unknown), 0
    for client in CLIENTS:
        try:
            going = getattr(trial, client)()
            if going is not None:
                asyncio.run(going)
        except Exception as error:
            failed += 1
            told = {"client": client, "ok": False, "error": repr(error), "trace": traceback.format_exc()[-3000:]}
        else:
            told = {"client": client, "ok": True}
        print(json.dumps(told), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
