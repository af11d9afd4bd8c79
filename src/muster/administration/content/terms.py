"""How the manifests of a work are applied: the executor, the update strategies, and what stays when the work is deleted.

`Terms` are the options of the command line; `spec_parts` converts them to fields of a ManifestWork's spec. A work's manifestConfigs
name a kind by its resource, which only discovery knows: the hub's, or a CustomResourceDefinition among the manifests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.administration.errors import AdministrationError
from muster.api import Document
from muster.api.work.v1 import ExecutorServiceAccount
from muster.kube.names import dns1123_subdomain
from muster.machinery.objects import GVR
from muster.runtime.client import KubeClient, NoKindMatch, RESTMapper


@dataclass(frozen=True)
class Terms:
    """Empty options are not set in the spec."""

    executor: ExecutorServiceAccount | None = None
    update_strategy: str = ""
    delete_option: str = ""


def parse_executor(text: str) -> ExecutorServiceAccount:
    """Parse `<namespace>/<name>` of a service account, or its user name."""
    prefix = "system:serviceaccount:"
    namespace, separator, name = text.removeprefix(prefix).partition(":" if text.startswith(prefix) else "/")
    if not separator or dns1123_subdomain(namespace) or dns1123_subdomain(name):
        raise AdministrationError(f"--executor: {text!r} is not <namespace>/<name> of a service account")
    return ExecutorServiceAccount(namespace=namespace, name=name)


async def spec_parts(client: KubeClient, terms: Terms, manifests: Sequence[Document]) -> Document:
    """The fields of a work's spec beside its manifests."""
    parts: Document = {}
    if terms.executor is not None:
        account = {"namespace": terms.executor.namespace, "name": terms.executor.name}
        parts["executor"] = {"subject": {"type": "ServiceAccount", "serviceAccount": account}}
    if terms.delete_option:
        parts["deleteOption"] = {"propagationPolicy": terms.delete_option}
    if terms.update_strategy:
        mapper = RESTMapper(client)
        found = [await _resource(mapper, manifest, manifests) for manifest in manifests]
        unique = {(resource.group, resource.plural): resource for resource in found}
        parts["manifestConfigs"] = [_treated(unique[key], terms.update_strategy) for key in sorted(unique)]
    return parts


async def _resource(mapper: RESTMapper, manifest: Document, manifests: Sequence[Document]) -> GVR:
    api_version, kind = manifest["apiVersion"], manifest["kind"]
    spec = definitions(manifests).get((_group(api_version), kind))
    if spec is not None:
        return GVR(api_version, str(spec["names"].get("plural", "")), kind, spec.get("scope") == "Namespaced")
    try:
        return await mapper.mapping(api_version, kind)
    except NoKindMatch:
        problem = f"--update-strategy: the hub does not know {kind} of {api_version}, nor is its definition among the manifests"
        raise AdministrationError(problem, "set it in manifestConfigs of the work") from None


def definitions(manifests: Sequence[Document]) -> dict[tuple[str, str], Document]:
    """The kinds that the manifests define: specs of CustomResourceDefinitions by group and kind."""
    specs = [manifest.get("spec") for manifest in manifests if manifest.get("kind") == "CustomResourceDefinition"]
    found = [spec for spec in specs if isinstance(spec, dict) and isinstance(spec.get("names"), dict)]
    return {(str(spec.get("group")), str(spec["names"].get("kind"))): spec for spec in found}


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _treated(resource: GVR, strategy: str) -> Document:
    identifier = {"group": resource.group, "resource": resource.plural, "name": "*"}
    if resource.namespaced:
        identifier["namespace"] = "*"
    return {"resourceIdentifier": identifier, "updateStrategy": {"type": strategy}}
