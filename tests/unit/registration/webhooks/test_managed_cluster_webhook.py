"""The whole matrix of what may be written to a ManagedCluster, by whom, and what is filled in."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from muster.kube.patching.jsonpatch import apply_json_patch
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.authorization import AccessDecision as Answer
from muster.machinery.golang.timestamps import format_time
from muster.registration.hub.webhooks.managed_cluster import ManagedClusterWebhook, is_https_url
from muster.registration.names import CLUSTER_LABEL, CLUSTER_SET_LABEL, RESOURCE_CLEANUP
from muster.runtime.client.errors import NotFound, Unreachable
from muster.runtime.webhook.server import AdmissionRequest, AdmissionResponse, Denied
from tests.support.fake_clock import FakeClock

Document = dict[str, Any]
ACCEPT = "update managedclusters/accept.register.open-cluster-management.io c1"


def join(name: str) -> str:
    return f"create managedclustersets/join.cluster.open-cluster-management.io {name}"


@dataclass
class Rights:
    """Answers yes to what it was given, and remembers what it was asked."""

    held: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)
    away: bool = False

    async def authorize(self, who: UserInfo, action: AccessAttributes) -> Answer:
        if self.away:
            raise Unreachable("hub", "refused")
        asked = f"{action.verb} {action.resource}/{action.subresource}.{action.group} {action.name}"
        self.asked.append(asked)
        return Answer(asked in self.held)


@dataclass
class Namespaces:
    """A client that knows namespaces by phase, and nothing else. Those in `marked` are clusters'."""

    phases: dict[str, str] = field(default_factory=dict)
    marked: tuple[str, ...] = ("c1",)

    async def get(self, resource: object, name: str) -> Document:
        if name not in self.phases:
            raise NotFound(404, "NotFound")
        labels = {CLUSTER_LABEL: name} if name in self.marked else {}
        return {"metadata": {"name": name, "labels": labels}, "status": {"phase": self.phases[name]}}


def cluster(name: str = "c1", labels: Document | None = None, **spec: Any) -> Document:
    metadata: Document = {"name": name}
    if labels is not None:
        metadata["labels"] = labels
    return {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": metadata, "spec": spec}


def review(new: Document | None, old: Document | None = None, user: str = "jo", groups: tuple[str, ...] = ()) -> AdmissionRequest:
    return AdmissionRequest.read(
        {
            "uid": "u",
            "operation": "CREATE" if old is None else "UPDATE",
            "name": ((new or {}).get("metadata") or {}).get("name"),
            "userInfo": {"username": user, "groups": list(groups)},
            "object": new,
            "oldObject": old,
        }
    )


def webhook(rights: Rights | None = None, phases: dict[str, str] | None = None, **options: Any) -> ManagedClusterWebhook:
    return ManagedClusterWebhook(Namespaces(phases or {}), rights or Rights(), FakeClock(), **options)  # type: ignore[arg-type]


async def validate(hook: ManagedClusterWebhook, *given: Any, **who: Any) -> AdmissionResponse:
    return await hook.validate(review(*given, **who))


async def mutated(new: Document, old: Document | None = None, **options: Any) -> Document:
    verdict = await webhook(**options).mutate(review(new, old))
    assert verdict.allowed
    patched: Document = apply_json_patch(new, list(verdict.patch))
    return patched


class TestAcceptance:
    async def test_accepting_needs_the_right_whether_the_cluster_is_new_or_not(self) -> None:
        for old in (None, cluster(), cluster(hubAcceptsClient=False)):
            with pytest.raises(Denied) as refusal:
                await validate(webhook(), cluster(hubAcceptsClient=True), old)
            assert (refusal.value.code, refusal.value.reason) == (403, "Forbidden")
            assert refusal.value.message == (
                'managedclusters/accept.cluster.open-cluster-management.io "c1" is forbidden: '
                'user "jo" cannot update the HubAcceptsClient field'
            )
            assert (await validate(webhook(Rights((ACCEPT,))), cluster(hubAcceptsClient=True), old)).allowed

    @pytest.mark.parametrize("group", ["system:open-cluster-management:c1", "open-cluster-management:c1"])
    async def test_a_clusters_own_agent_may_leave_but_not_let_itself_in(self, group: str) -> None:
        rights = Rights()
        assert (await validate(webhook(rights), cluster(), cluster(hubAcceptsClient=True), groups=(group,))).allowed
        assert rights.asked == []
        with pytest.raises(Denied):
            await validate(webhook(), cluster(hubAcceptsClient=True), cluster(), groups=(group,))

    @pytest.mark.parametrize(
        "group",
        [
            "system:open-cluster-management:c10",
            "system:open-cluster-management:managed-clusters",
            "open-cluster-management:c",
            "c1",
        ],
    )
    async def test_others_need_the_right_to_take_acceptance_back(self, group: str) -> None:
        accepted, denied = cluster(hubAcceptsClient=True), cluster(hubAcceptsClient=False)
        with pytest.raises(Denied, match="cannot update the HubAcceptsClient field"):
            await validate(webhook(), denied, accepted, groups=(group,))
        assert (await validate(webhook(Rights((ACCEPT,))), denied, accepted, groups=(group,))).allowed

    async def test_what_does_not_change_acceptance_asks_for_no_right(self) -> None:
        rights = Rights()
        for new, old in (
            (cluster(), None),
            (cluster(hubAcceptsClient=True, leaseDurationSeconds=5), cluster(hubAcceptsClient=True)),
            (cluster(labels={"a": "b"}), cluster(hubAcceptsClient=False)),
        ):
            assert (await validate(webhook(rights), new, old)).allowed
        assert rights.asked == []

    async def test_a_namespace_that_is_going_stands_in_the_way_of_accepting_only(self) -> None:
        rights = Rights((ACCEPT,))
        for phase, good in (("Active", True), ("Terminating", False)):
            hook = webhook(rights, {"c1": phase})
            if good:
                assert (await validate(hook, cluster(hubAcceptsClient=True))).allowed
            else:
                for old in (None, cluster()):
                    with pytest.raises(Denied, match='cluster namespace "c1" is terminating'):
                        await validate(hook, cluster(hubAcceptsClient=True), old)
                assert (await validate(hook, cluster(), cluster(hubAcceptsClient=True))).allowed

    async def test_a_hub_that_cannot_be_asked_is_no_yes(self) -> None:
        with pytest.raises(Unreachable):
            await validate(webhook(Rights(away=True)), cluster(hubAcceptsClient=True))

    @pytest.mark.parametrize("name", ["default", "kube-flannel", "open-cluster-management-agent"])
    async def test_a_name_that_is_reserved_is_refused_at_creation_and_at_acceptance(self, name: str) -> None:
        rights = Rights((ACCEPT.replace("c1", name),))
        with pytest.raises(Denied, match="cannot name a cluster"):
            await validate(webhook(rights), cluster(name))
        with pytest.raises(Denied, match="cannot name a cluster"):
            await validate(webhook(rights), cluster(name, hubAcceptsClient=True), cluster(name))
        let_in = with_metadata(cluster(name), finalizers=[RESOURCE_CLEANUP])
        again = with_metadata(cluster(name, hubAcceptsClient=True), finalizers=[RESOURCE_CLEANUP])
        assert (await validate(webhook(rights), again, let_in)).allowed

    async def test_somebody_elses_namespace_becomes_no_clusters_unless_an_administrator_says_so(self) -> None:
        rights = Rights((ACCEPT.replace("c1", "payments"),))
        hook = webhook(rights, {"payments": "Active"})
        with pytest.raises(Denied, match="kubectl label namespace payments"):
            await validate(hook, cluster("payments", hubAcceptsClient=True), cluster("payments"))
        let_in = with_metadata(cluster("payments"), finalizers=[RESOURCE_CLEANUP])
        again = with_metadata(cluster("payments", hubAcceptsClient=True), finalizers=[RESOURCE_CLEANUP])
        assert (await validate(hook, again, let_in)).allowed


def with_metadata(document: Document, **more: Any) -> Document:
    return {**document, "metadata": {**document["metadata"], **more}}


AGENT = "system:open-cluster-management:c1"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "0000"}
LIFE = [{"ownerReferences": [OWNER]}, {"finalizers": ["evil.example/forever"]}]


class TestAgents:
    @pytest.mark.parametrize("group", [AGENT, "open-cluster-management:c1"])
    @pytest.mark.parametrize("more", LIFE, ids=["owners", "finalizers"])
    async def test_an_agent_cannot_decide_on_the_life_of_its_cluster(self, group: str, more: Document) -> None:
        plain, changed = cluster(), with_metadata(cluster(), **more)
        for new, old in ((changed, plain), (plain, changed)):
            with pytest.raises(Denied, match=f"agents of a cluster cannot change metadata.{next(iter(more))}"):
                await validate(webhook(), new, old, groups=(group,))
            assert (await validate(webhook(), new, old)).allowed
        assert (await validate(webhook(), with_metadata(changed, annotations={"a": "b"}), changed, groups=(group,))).allowed

    @pytest.mark.parametrize("more", LIFE, ids=["owners", "finalizers"])
    async def test_nor_can_whoever_introduces_a_cluster_without_the_right_to_accept_it(self, more: Document) -> None:
        with pytest.raises(Denied, match=f"cannot set metadata.{next(iter(more))}"):
            await validate(webhook(), with_metadata(cluster(), **more))
        assert (await validate(webhook(Rights((ACCEPT,))), with_metadata(cluster(), **more))).allowed

    async def test_labels_and_taints_are_the_agents_by_default_and_not_with_the_gate(self) -> None:
        taint = {"key": "a", "effect": "NoSelect"}
        for new in (cluster(labels={"env": "prod"}), cluster(taints=[taint])):
            assert (await validate(webhook(), new, cluster(), groups=(AGENT,))).allowed
            with pytest.raises(Denied, match="agents of a cluster cannot change"):
                await validate(webhook(agent_restriction=True), new, cluster(), groups=(AGENT,))
            with pytest.raises(Denied, match="agents of a cluster cannot change"):
                await validate(webhook(agent_restriction=True), cluster(), new, groups=(AGENT,))
            assert (await validate(webhook(agent_restriction=True), new, cluster())).allowed

    async def test_with_the_gate_agents_still_write_what_upstreams_agents_write(self) -> None:
        hook = webhook(agent_restriction=True)
        own = {"agent.open-cluster-management.io/site": "a"}
        urls = [{"url": "https://a.example"}]
        for new, old in (
            (cluster(), cluster(hubAcceptsClient=True)),
            (cluster(managedClusterClientConfigs=urls), cluster()),
            (with_metadata(cluster(), annotations={"agent.open-cluster-management.io/x": "y"}), cluster()),
            (cluster(labels=own), cluster()),
            (cluster(labels={CLUSTER_SET_LABEL: "default"}), cluster()),
        ):
            assert (await validate(hook, new, old, groups=(AGENT,))).allowed

    async def test_with_the_gate_a_newcomer_cannot_choose_its_labels_and_its_set(self) -> None:
        held = Rights((join("secure"), join("default")))
        hook = webhook(held, agent_restriction=True)
        for labels in ({CLUSTER_SET_LABEL: "secure"}, {"env": "prod"}):
            with pytest.raises(Denied, match="introduces a cluster that it cannot accept"):
                await validate(hook, cluster(labels=labels))
            assert (await validate(webhook(Rights((ACCEPT, *held.held)), agent_restriction=True), cluster(labels=labels))).allowed
            assert (await validate(webhook(held), cluster(labels=labels))).allowed
        assert (await validate(hook, cluster(labels={CLUSTER_SET_LABEL: "default"}))).allowed


class TestSets:
    @pytest.mark.parametrize(
        ("old", "new", "held", "good"),
        [
            (None, "a", (), False),
            (None, "a", ("a",), True),
            ("a", "a", (), True),
            ("a", "b", (), False),
            ("a", "b", ("a",), False),
            ("a", "b", ("b",), False),
            ("a", "b", ("a", "b"), True),
            ("a", None, (), False),
            ("a", None, ("a",), True),
            ("", None, (), True),
            (None, "", (), True),
            (None, "default", (), True),
            ("default", "a", ("a",), False),
        ],
    )
    async def test_moving_between_sets_needs_the_right_for_both(
        self, old: str | None, new: str | None, held: tuple[str, ...], good: bool
    ) -> None:
        def of(name: str | None) -> Document:
            return cluster(labels=None if name is None else {CLUSTER_SET_LABEL: name})

        hook = webhook(Rights(tuple(join(name) for name in held)))
        if good:
            assert (await validate(hook, of(new), of(old))).allowed
            return
        with pytest.raises(Denied, match="cannot add/remove a ManagedCluster to/from ManagedClusterSet") as refusal:
            await validate(hook, of(new), of(old))
        assert refusal.value.code == 403

    async def test_where_no_set_is_the_default_one_nobody_is_put_into_it_for_nothing(self) -> None:
        new = cluster(labels={CLUSTER_SET_LABEL: "default"})
        with pytest.raises(Denied):
            await validate(webhook(default_cluster_set=False), new, cluster())
        with pytest.raises(Denied):
            await validate(webhook(), new)

    async def test_a_new_cluster_in_a_set_needs_the_right_for_it(self) -> None:
        new = cluster(labels={CLUSTER_SET_LABEL: "a"})
        with pytest.raises(Denied, match='"a" is forbidden'):
            await validate(webhook(), new)
        assert (await validate(webhook(Rights((join("a"),))), new)).allowed


class TestShape:
    @pytest.mark.parametrize(
        "name", ["Upper", "a.b", "x" * 64, "-a", "a_b", "managed-clusters", "work", "registration", "kube-system"]
    )
    async def test_a_name_that_no_cluster_can_have_is_refused_with_and_without_urls(self, name: str) -> None:
        specs: tuple[Document, ...] = ({}, {"managedClusterClientConfigs": [{"url": "https://a"}]})
        for spec in specs:
            with pytest.raises(Denied, match=r"metadata\.name") as refusal:
                await validate(webhook(), cluster(name, **spec))
            assert (refusal.value.code, refusal.value.reason) == (400, "BadRequest")

    async def test_an_old_object_with_a_bad_name_can_still_lose_its_finalizers(self) -> None:
        old = cluster("a.b")
        old["metadata"]["finalizers"] = ["x/y"]
        assert (await validate(webhook(), cluster("a.b"), old)).allowed

    async def test_urls_are_https_and_every_bad_one_is_named(self) -> None:
        configs = [{"url": "https://good:6443"}, {"url": "http://plain"}, {"url": ""}]
        for old in (None, cluster()):
            with pytest.raises(Denied) as refusal:
                await validate(webhook(), cluster(managedClusterClientConfigs=configs), old)
            assert refusal.value.code == 400
            lines = refusal.value.message.splitlines()
            assert [line.partition(":")[0] for line in lines] == [
                "spec.managedClusterClientConfigs[1].url",
                "spec.managedClusterClientConfigs[2].url",
            ]
            assert 'url "http://plain" is invalid in client configs' in lines[0]

    async def test_urls_that_were_there_before_may_stay(self) -> None:
        old = cluster(managedClusterClientConfigs=[{"url": "http://old"}])
        new = cluster(managedClusterClientConfigs=[{"url": "http://old"}, {"url": "https://new"}])
        assert (await validate(webhook(), new, old)).allowed

    @pytest.mark.parametrize(
        ("url", "good"),
        [
            ("https://a", True),
            ("HTTPS://a:6443/path", True),
            ("https://[::1]:6443", True),
            ("https://", False),
            ("https:a", False),
            ("a:6443", False),
            ("https://a:port", False),
            ("https://a\n", False),
            ("https://[::1", False),
        ],
    )
    def test_what_counts_as_an_https_url(self, url: str, good: bool) -> None:
        assert is_https_url(url) is good

    @pytest.mark.parametrize(
        ("spec", "field"),
        [
            ({"hubAcceptsClient": "yes"}, "spec.hubAcceptsClient"),
            ({"managedClusterClientConfigs": [{}]}, "spec.managedClusterClientConfigs[0]"),
            ({"taints": [{"key": "a", "effect": 3}]}, "spec.taints[0].effect"),
            ({"taints": [{"effect": "NoSelect"}]}, "spec.taints[0]"),
            ({"taints": "many"}, "spec.taints"),
        ],
    )
    async def test_a_malformed_object_is_a_bad_request_that_names_the_field(self, spec: Document, field: str) -> None:
        for call in (webhook().validate, webhook().mutate):
            for given in ((cluster(**spec),), (cluster(**spec), cluster())):
                with pytest.raises(Denied) as refusal:
                    await call(review(*given))
                assert refusal.value.code == 400
                assert field in refusal.value.message
            assert (await call(review(cluster(), cluster(**spec)))).allowed
            assert (await call(review(cluster(**spec), cluster(**spec)))).allowed

    async def test_a_review_without_an_object_is_a_bad_request(self) -> None:
        with pytest.raises(Denied, match="carries no ManagedCluster"):
            await validate(webhook(), None)

    async def test_deleting_is_not_its_business(self) -> None:
        request = AdmissionRequest.read({"uid": "u", "operation": "DELETE", "oldObject": cluster("A.B")})
        assert (await webhook().validate(request)).allowed
        assert (await webhook().mutate(request)).patch == ()


NOW = format_time(FakeClock().now())
BEFORE = format_time(FakeClock().now() - timedelta(seconds=10))
LONG_AGO = format_time(FakeClock().now() - timedelta(hours=10))


def taint(key: str, effect: str = "NoSelect", time: str | None = None, value: str = "v") -> Document:
    return {"key": key, "value": value, "effect": effect, **({} if time is None else {"timeAdded": time})}


class TestTaints:
    async def test_a_new_clusters_taints_are_from_now_whatever_it_says(self) -> None:
        found = await mutated(cluster(taints=[taint("a"), taint("b", time=LONG_AGO), {**taint("c"), "timeAdded": None}]))
        assert found["spec"]["taints"] == [taint(key, time=NOW) for key in "abc"]

    async def test_new_and_changed_taints_are_from_now_and_unchanged_ones_keep_their_time(self) -> None:
        old = cluster(taints=[taint("same", time=BEFORE), taint("effect", time=BEFORE), taint("value", time=BEFORE)])
        new = cluster(
            taints=[taint("same", time=BEFORE), taint("effect", "NoSelectIfNew"), taint("value", value="w"), taint("new")]
        )
        found = await mutated(new, old)
        assert {one["key"]: one["timeAdded"] for one in found["spec"]["taints"]} == {
            "same": BEFORE,
            "effect": NOW,
            "value": NOW,
            "new": NOW,
        }

    async def test_a_manifest_without_times_can_be_applied_again(self) -> None:
        found = await mutated(cluster(taints=[taint("a")]), cluster(taints=[taint("a", time=BEFORE)]))
        assert found["spec"]["taints"] == [taint("a", time=BEFORE)]

    async def test_nobody_sets_the_time_of_a_taint_and_every_attempt_is_named(self) -> None:
        old = cluster(taints=[taint("a", time=BEFORE), taint("b", time=BEFORE), taint("ok", time=BEFORE)])
        new = cluster(
            taints=[
                taint("a", time=LONG_AGO),
                taint("b", "PreferNoSelect", time=BEFORE),
                taint("ok", time=BEFORE),
                taint("new", time=NOW),
            ]
        )
        with pytest.raises(Denied) as refusal:
            await mutated(new, old)
        assert refusal.value.code == 400
        assert refusal.value.message == 'It is not allowed to set TimeAdded of Taint "a,b,new".'

    async def test_the_same_moment_written_otherwise_is_the_same(self) -> None:
        old = cluster(taints=[taint("a", time="2026-01-01T00:00:00Z")])
        found = await mutated(cluster(taints=[taint("a", time="2026-01-01T01:00:00.5+01:00")]), old)
        assert found["spec"]["taints"] == [taint("a", time="2026-01-01T00:00:00Z")]

    async def test_a_time_that_is_none_names_its_field(self) -> None:
        with pytest.raises(Denied, match=r"spec\.taints\[0\]\.timeAdded"):
            await mutated(cluster(taints=[taint("a", time="yesterday")]))

    async def test_taints_can_go_and_unknown_fields_stay(self) -> None:
        old = cluster(taints=[taint("a", time=BEFORE), taint("b", time=BEFORE)])
        new = cluster(taints=[{**taint("b", time=BEFORE), "future": [1]}], alsoNew={"x": 1})
        found = await mutated(new, old)
        assert found["spec"] == new["spec"]
        assert found["metadata"]["labels"] == {CLUSTER_SET_LABEL: "default"}


class TestDefaultSet:
    @pytest.mark.parametrize(
        ("labels", "expected"),
        [
            (None, {CLUSTER_SET_LABEL: "default"}),
            ({}, {CLUSTER_SET_LABEL: "default"}),
            ({CLUSTER_SET_LABEL: ""}, {CLUSTER_SET_LABEL: "default"}),
            ({"a": "b"}, {"a": "b", CLUSTER_SET_LABEL: "default"}),
            ({CLUSTER_SET_LABEL: "mine"}, {CLUSTER_SET_LABEL: "mine"}),
        ],
    )
    async def test_a_cluster_without_a_set_is_put_into_the_default_one(self, labels: Document | None, expected: Document) -> None:
        for old in (None, cluster(labels={CLUSTER_SET_LABEL: "default"})):
            assert (await mutated(cluster(labels=labels), old))["metadata"]["labels"] == expected

    async def test_the_default_set_can_be_switched_off(self) -> None:
        assert "labels" not in (await mutated(cluster(), default_cluster_set=False))["metadata"]
