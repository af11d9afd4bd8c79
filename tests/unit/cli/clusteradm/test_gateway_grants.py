"""`clusteradm gateway grant --apply` on a hub: what is applied lets a user do what it says, and nothing more."""

from __future__ import annotations

from typing import Any

import pytest

from muster.runtime.client.builtin import ACCESS_REVIEWS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES
from tests.unit.cli.clusteradm.conftest import PLAIN, Fleet

GROUP = "proxy.open-cluster-management.io"


async def may(fleet: Fleet, verb: str, resource: str, user: str = "alice", **attributes: Any) -> bool:
    """By the hub's own word, as the gateway asks for it."""
    resource, _, subresource = resource.partition("/")
    asked = {"verb": verb, "resource": resource, "subresource": subresource, **attributes}
    kind = {"apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.kind}
    review = {**kind, "spec": {"user": user, "resourceAttributes": asked}}
    return bool((await fleet.admin().create(ACCESS_REVIEWS, review))["status"]["allowed"])


async def test_a_viewer_reads_one_cluster_and_nothing_else(fleet: Fleet) -> None:
    said = await fleet.run("gateway", "grant", "alice", "--role", "viewer", "--cluster", "foo", "--apply")
    assert said.exit_code == 0, said.output
    assert "has no gateway" in said.stderr, "a grant may come before the gateway"
    assert await may(fleet, "get", "clustergateways/proxy", group=GROUP, name="foo")
    assert not await may(fleet, "get", "clustergateways/proxy", group=GROUP, name="bar")
    assert not await may(fleet, "create", "clustergateways/proxy", group=GROUP, name="foo")
    assert not await may(fleet, "get", "clustergateways", group=GROUP, name="foo")
    assert await may(fleet, "foo/list", "pods", namespace="web")
    assert await may(fleet, "foo/watch", "deployments", group="apps")
    assert await may(fleet, "foo/get", "pods/log", namespace="web")
    for verb, resource in (
        ("bar/list", "pods"),
        ("list", "pods"),
        ("foo/create", "pods"),
        ("foo/get", "secrets"),
        ("foo/create", "pods/exec"),
        ("foo/get", "pods/exec"),
        ("foo/get", "nodes/proxy"),
        ("foo/create", "serviceaccounts/token"),
    ):
        assert not await may(fleet, verb, resource), (verb, resource)


async def test_an_admin_of_a_namespace_is_one_there_alone(fleet: Fleet) -> None:
    words = ("gateway", "grant", "alice", "--role", "admin", "--cluster", "foo", "--namespace", "web", "--apply")
    assert "the hub has no namespace web" in await fleet.fails(*words)
    await fleet.ok(*words, "--create-namespace")
    assert await fleet.find(NAMESPACES, "web") is not None
    assert await may(fleet, "foo/create", "pods/exec", namespace="web")
    assert await may(fleet, "foo/deletecollection", "widgets", group="example.com", namespace="web")
    assert await may(fleet, "foo/get", "namespaces", namespace="web", name="web")
    assert not await may(fleet, "foo/get", "pods", namespace="default")
    assert not await may(fleet, "foo/list", "pods")
    assert not await may(fleet, "get", "pods", namespace="web"), "on the hub itself it is nothing"
    before = await fleet.revision()
    await fleet.ok(*words)
    assert await fleet.revision() == before, "to grant it again changes nothing"


async def test_groups_and_accounts_are_bound_beside_each_other(fleet: Fleet) -> None:
    await fleet.ok("gateway", "grant", "--group", "devs", "--role", "editor", "-c", "foo", "--apply")
    await fleet.ok("gateway", "grant", "--serviceaccount", "ci:bot", "--role", "editor", "-c", "foo", "--apply")
    bindings = [
        one
        for one in (await fleet.admin().list(CLUSTER_ROLE_BINDINGS)).items
        if one["metadata"]["name"].startswith("cluster-gateway:")
    ]
    assert sorted(one["subjects"][0]["kind"] for one in bindings) == ["Group", "ServiceAccount"]
    assert len({one["roleRef"]["name"] for one in bindings}) == 1
    assert await may(fleet, "foo/create", "pods/exec", user="system:serviceaccount:ci:bot")


async def test_a_dry_run_and_a_printed_grant_write_nothing(fleet: Fleet) -> None:
    before = await fleet.revision()
    words = ("gateway", "grant", "alice", "--role", "editor", "-c", "foo")
    said = await fleet.run(*words, "--apply", "--dry-run")
    assert said.exit_code == 0, said.output
    assert "would " in said.stderr
    await fleet.ok(*words)
    assert await fleet.revision() == before
    names = [one["metadata"]["name"] for one in (await fleet.admin().list(CLUSTER_ROLES)).items]
    assert not [one for one in names if one.startswith("cluster-gateway:")]


@pytest.mark.parametrize("words", [("kubeconfig",), ("exec", "--all", "version")])
async def test_a_hub_without_a_gateway_says_how_to_install_one(fleet: Fleet, words: tuple[str, ...]) -> None:
    told = await fleet.fails("gateway", *words)
    assert "it serves no clustergateways; install it with install hub-addon --names cluster-gateway" in told
    assert "hub oriented command" in await fleet.fails("gateway", *words, context=PLAIN)
    assert "clustergateways" in await fleet.fails("proxy", "health")
