"""Whatever a review carries, the webhooks answer with a verdict or a refusal, and never fail."""

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.authentication import UserInfo
from muster.runtime.webhook.server import AdmissionRequest, AdmissionResponse, Denied
from muster.work.hub.webhooks.executors import Executor
from muster.work.hub.webhooks.works import WorkLimits, WorkWebhooks
from tests.unit.work.hub.conftest import config_map, executor

scalars = st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=5)
json = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3))
executors = json | st.just(executor(("ns", "a"))) | st.fixed_dictionaries({"subject": json | st.just({"type": "ServiceAccount"})})
manifests = st.lists(json | st.just(config_map()), max_size=3)
filled = st.fixed_dictionaries(
    {},
    optional={
        "workload": json | st.fixed_dictionaries({"manifests": json | manifests}),
        "executor": executors,
        "manifestConfigs": json | st.lists(json, max_size=2),
        "deleteOption": json,
    },
)
specs = json | filled
objects = json | st.fixed_dictionaries({"metadata": json, "spec": specs})
sets = json | st.fixed_dictionaries({"spec": json | st.fixed_dictionaries({"manifestWorkTemplate": specs, "placementRefs": json})})


class Nobody:
    async def allows(self, who: UserInfo, executor: Executor, namespace: str) -> bool:
        return False


WEBHOOKS = WorkWebhooks(Nobody(), WorkLimits(512_000, nil_counts=True))


def answer(admit: Any, operation: str, new: Any, old: Any) -> AdmissionResponse | Denied:
    review = {"uid": "1", "operation": operation, "namespace": "cluster1", "name": "w", "object": new, "oldObject": old}
    request = AdmissionRequest.read(review)
    try:
        return asyncio.run(admit(request))
    except Denied as refusal:
        return refusal


@given(operation=st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"]), new=objects, old=objects)
def test_any_work_gets_an_answer(operation: str, new: Any, old: Any) -> None:
    found = answer(WEBHOOKS.validate_work, operation, new, old)
    assert isinstance(found, AdmissionResponse) or found.code == 400


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_what_is_nested_too_deeply_is_refused(operation: str) -> None:
    data: Any = {}
    for _ in range(300):
        data = {"a": data}
    deep: dict[str, Any] = {"spec": {"workload": {"manifests": [config_map(data=data)]}}}
    plain: dict[str, Any] = {"spec": {"workload": {"manifests": [config_map()]}}}
    for new, old in ((deep, None if operation == "CREATE" else plain), *([(plain, deep)] if operation == "UPDATE" else [])):
        found = answer(WEBHOOKS.validate_work, operation, new, old)
        assert isinstance(found, Denied)
        assert (found.code, str(found)) == (400, "spec is nested too deeply")
        of_set = {"spec": {"manifestWorkTemplate": new["spec"]}}, old and {"spec": {"manifestWorkTemplate": old["spec"]}}
        found = answer(WEBHOOKS.validate_replica_set, operation, *of_set)
        assert isinstance(found, Denied)
        assert found.code == 400


@given(operation=st.sampled_from(["CREATE", "UPDATE"]), new=sets, old=sets)
def test_any_replica_set_gets_an_answer(operation: str, new: Any, old: Any) -> None:
    found = answer(WEBHOOKS.validate_replica_set, operation, new, old)
    assert isinstance(found, AdmissionResponse) or found.code == 400


@given(new=filled, old=filled | st.none())
def test_a_changed_spec_is_accepted_from_nobody(new: Any, old: Any) -> None:
    """With the gate on every executor takes a right, and this policy gives none."""
    is_new = old is None
    found = answer(WEBHOOKS.validate_work, "CREATE" if is_new else "UPDATE", {"spec": new}, None if is_new else {"spec": old})
    if isinstance(found, AdmissionResponse):
        assert orjson.dumps(new, option=orjson.OPT_SORT_KEYS) == orjson.dumps(old, option=orjson.OPT_SORT_KEYS)
