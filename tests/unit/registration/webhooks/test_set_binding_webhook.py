"""Bindings of cluster sets: named as their set, made by those who may bind it."""

import pytest

from muster.registration.hub.webhooks.set_binding import SetBindingWebhook
from muster.runtime.webhook.server import AdmissionRequest, Denied
from tests.unit.registration.webhooks.test_managed_cluster_webhook import Document, Rights, review

BIND = "create managedclustersets/bind.cluster.open-cluster-management.io blue"


def binding(name: str = "blue", **spec: object) -> Document:
    kind = {"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding"}
    return {**kind, "metadata": {"name": name, "namespace": "apps"}, "spec": spec or {"clusterSet": "blue"}}


async def test_binding_a_set_needs_the_right_for_it() -> None:
    assert (await SetBindingWebhook(Rights((BIND,))).validate(review(binding()))).allowed
    with pytest.raises(Denied) as refusal:
        await SetBindingWebhook(Rights()).validate(review(binding()))
    assert refusal.value.code == 403
    assert refusal.value.message == (
        'managedclustersets/bind.cluster.open-cluster-management.io "blue" is forbidden: '
        'user "jo" is not allowed to bind cluster set "blue"'
    )


async def test_changing_a_binding_needs_no_further_right() -> None:
    rights = Rights()
    assert (await SetBindingWebhook(rights).validate(review(binding(), binding()))).allowed
    assert rights.asked == []


async def test_a_binding_has_its_sets_name_when_made_and_ever_after() -> None:
    hook = SetBindingWebhook(Rights((BIND,)))
    for old in (None, binding()):
        with pytest.raises(Denied, match="must have the same name as the target ManagedClusterSet") as refusal:
            await hook.validate(review(binding(clusterSet="red"), old))
        assert refusal.value.code == 400


async def test_a_malformed_binding_is_a_bad_request_that_names_the_field() -> None:
    with pytest.raises(Denied) as refusal:
        await SetBindingWebhook(Rights()).validate(review(binding(clusterSet=5)))
    assert refusal.value.code == 400
    assert "$.spec.clusterSet" in refusal.value.message


async def test_deleting_is_not_its_business() -> None:
    request = AdmissionRequest.read({"uid": "u", "operation": "DELETE", "oldObject": binding("other")})
    assert (await SetBindingWebhook(Rights()).validate(request)).allowed
