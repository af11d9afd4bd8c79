"""What the cluster refuses is told in the cluster's own words, and nothing of it is there afterwards."""

from __future__ import annotations

import pytest

from muster.machinery.objects import GVR
from muster.runtime.cache.observed import ABSENT
from muster.runtime.client.errors import NotFound, StatusError
from tests.support.bad_manifests import BAD_MANIFESTS, BadManifest
from tests.support.manifests import manifest
from tests.unit.work.applying.conftest import OWNER, Cluster


def test_there_are_twenty_kinds() -> None:
    assert len({bad.kind for bad in BAD_MANIFESTS}) == len(BAD_MANIFESTS) == 20


@pytest.mark.parametrize("strategy", ["Update", "ServerSideApply"])
@pytest.mark.parametrize("bad", BAD_MANIFESTS, ids=lambda bad: bad.kind)
async def test_a_manifest_that_the_cluster_refuses_is_reported_in_its_words(
    cluster: Cluster, bad: BadManifest, strategy: str
) -> None:
    wanted = manifest(bad.document("default"), type=strategy)
    with pytest.raises(StatusError) as caught:
        await cluster.applier.apply(wanted, OWNER, ABSENT)
    assert bad.says in str(caught.value)
    resource = GVR(bad.api_version, bad.plural, bad.kind, bad.namespaced)
    with pytest.raises(NotFound):
        await cluster.client.get(resource, wanted.ref.name, wanted.ref.namespace)
