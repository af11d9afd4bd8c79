"""Whatever a work says, by whatever strategy, over whatever is there: nothing is written that its executor could not have written.

`MUSTER_ESCALATION_EXAMPLES` is how many scenarios are played; the short form's are always the same.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.apiserver.server import ApiServer, ServerConfig
from muster.kube.rbac import API_GROUP
from muster.machinery.objects import Object
from tests.support.escalating import SPACE, WIDE, Arena, Change, Scenario

EXAMPLES = int(os.environ.get("MUSTER_ESCALATION_EXAMPLES", "0"))
SHORT = 60

OFTEN = st.sampled_from((True, True, True, True, False))
LIFE = ["create", "update", "patch", "get", "delete"]
NAMES = ("a", "b")
KINDS = {"Role": "roles", "ClusterRole": "clusterroles", "RoleBinding": "rolebindings", "ClusterRoleBinding": "clusterrolebindings"}
GOOD_RULES: list[Object] = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["one"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]},
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
]
ODD_RULES: list[Any] = [
    {**GOOD_RULES[3], "note": "x"},
    {**GOOD_RULES[3], "resources": [None, "secrets"]},
    {**GOOD_RULES[3], "verbs": ["get", None]},
    {**GOOD_RULES[3], "resourceNames": None},
    {**GOOD_RULES[0], "Verbs": ["*"], "RESOURCES": ["secrets"]},
    {**GOOD_RULES[3], "apiGroups": "", "x": []},
    *(None, 5, [], "all", {}),
]
HELD = st.sampled_from([GOOD_RULES[:3], GOOD_RULES[:3], GOOD_RULES[:1], GOOD_RULES[:4]])
RULES = st.sampled_from([*GOOD_RULES[:3], *GOOD_RULES[:3], *GOOD_RULES])
PRIVILEGES = st.lists(
    st.sampled_from(
        [
            {
                "apiGroups": [API_GROUP],
                "resources": ["roles", "clusterroles"],
                "verbs": ["escalate"],
                "resourceNames": ["a", f"{WIDE}a"],
            },
            {
                "apiGroups": [API_GROUP],
                "resources": ["roles", "clusterroles"],
                "verbs": ["bind"],
                "resourceNames": ["b", f"{WIDE}b"],
            },
            {"apiGroups": [API_GROUP], "resources": ["*"], "verbs": ["escalate"]},
        ]
    ),
    max_size=1,
)
NAMED = [name for one in NAMES for name in (one, f"{WIDE}{one}")]
EVERY: Object = {"apiGroups": [API_GROUP], "resources": ["*"], "verbs": LIFE}
WRITING = st.sampled_from(
    [
        *(EVERY, EVERY, EVERY, EVERY),
        {"apiGroups": [API_GROUP], "resources": ["*"], "verbs": ["create", "get", "delete"]},
        {"apiGroups": [API_GROUP], "resources": ["*"], "verbs": LIFE, "resourceNames": NAMED},
        {"apiGroups": [API_GROUP], "resources": ["*"], "verbs": ["create", "get", "delete"], "resourceNames": NAMED},
    ]
)
LABELS = st.sampled_from(
    [{}, {"gather": "yes"}, {"gather": "yes"}, {"gather-": ""}, {"rbac.authorization.k8s.io/aggregate-to-view": "true"}]
)
AGGREGATION = {"clusterRoleSelectors": [{"matchLabels": {"gather": "yes"}}]}
IGNORED = {
    "roles": st.sampled_from(
        [
            *({"jsonPaths": [path]} for path in (".rules", ".aggregationRule", ".metadata.labels")),
            *({"jsonPointers": [path]} for path in ("/rules", "/rules/0", "/metadata/labels")),
            *({"jqPathExpressions": [path]} for path in (".rules", ".rules[0]", ".rules[].verbs")),
        ]
    ),
    "bindings": st.sampled_from(
        [
            *({"jsonPaths": [path]} for path in (".roleRef", ".roleRef.name", ".subjects")),
            *({"jsonPointers": [path]} for path in ("/roleRef", "/roleRef/kind")),
            *({"jqPathExpressions": [path]} for path in (".roleRef", ".subjects[0]")),
        ]
    ),
}


def name_of(kind: str, name: str) -> str:
    return f"{WIDE}{name}" if kind.startswith("Cluster") else name


def metadata_of(kind: str, name: str, labels: Object) -> Object:
    place = {} if kind.startswith("Cluster") else {"namespace": SPACE}
    return {"name": name_of(kind, name), **place, **({"labels": labels} if labels else {})}


@st.composite
def references(draw: Callable[..., Any], kind: str) -> Object:
    role = "ClusterRole" if kind == "ClusterRoleBinding" else draw(st.sampled_from(("Role", "ClusterRole")))
    return {"apiGroup": API_GROUP, "kind": role, "name": name_of(role, draw(st.sampled_from(NAMES)))}


def subjects() -> st.SearchStrategy[list[Object]]:
    return st.lists(
        st.sampled_from(("x", "y")).map(lambda name: {"kind": "ServiceAccount", "namespace": SPACE, "name": name}), max_size=2
    )


@st.composite
def contents(draw: Callable[..., Any], kind: str, *, odd: bool) -> Object:
    """What a role or binding says; an odd one may leave things out, and say what is no sense."""
    if kind.endswith("Binding"):
        content: Object = {"roleRef": draw(references(kind)), "subjects": draw(subjects())}
        oddities: list[Object] = [{"roleref": draw(references(kind))}, {"roleRef": {**content["roleRef"], "Name": "b", "x": None}}]
    else:
        rules = st.one_of(RULES, st.sampled_from(ODD_RULES)) if odd else RULES
        content = {"rules": draw(st.lists(rules, max_size=2))}
        if not draw(OFTEN):
            content["aggregationRule"] = AGGREGATION
        oddities = [
            {"RULES": [GOOD_RULES[4]]},
            {"rules": None},
            {"rules": {}},
            {"aggregationRule": []},
            {"aggregationrule": AGGREGATION},
        ]
    if odd:
        content = {field: value for field, value in content.items() if draw(OFTEN)}
        if not draw(OFTEN):
            content |= draw(st.sampled_from(oddities))
    return content


@st.composite
def documents(draw: Callable[..., Any], *, odd: bool) -> Object:
    kind = draw(st.sampled_from([*KINDS, *KINDS, "ConfigMap"] if odd else list(KINDS)))
    metadata = metadata_of(kind, draw(st.sampled_from(NAMES)), draw(LABELS) if odd else {})
    odd = odd and not draw(OFTEN)
    head = {"apiVersion": "v1" if kind == "ConfigMap" else f"{API_GROUP}/v1", "kind": kind, "metadata": metadata}
    return {**head, "data": {"a": "b"}} if kind == "ConfigMap" else {**head, **draw(contents(kind, odd=odd))}


@st.composite
def treated(draw: Callable[..., Any], document: Object) -> Object:
    strategy: Object = {"type": draw(st.sampled_from(("Update", "CreateOnly", "ServerSideApply", "ServerSideApply", "ReadOnly")))}
    if strategy["type"] == "ServerSideApply":
        fields = [
            {"condition": draw(st.sampled_from(("OnSpokePresent", "OnSpokePresent", "OnSpokeChange"))), **one}
            for one in draw(st.lists(IGNORED["bindings" if document["kind"].endswith("Binding") else "roles"], max_size=2))
        ]
        strategy["serverSideApply"] = {"force": draw(OFTEN), **({"ignoreFields": fields} if fields else {})}
    group = "" if document["kind"] == "ConfigMap" else API_GROUP
    plural = KINDS.get(document["kind"], "configmaps")
    identifier = {"group": group, "resource": plural, "name": document["metadata"]["name"]}
    return {
        "resourceIdentifier": {**identifier, "namespace": document["metadata"].get("namespace", "")},
        "updateStrategy": strategy,
    }


@st.composite
def works(draw: Callable[..., Any]) -> tuple[list[Object], list[Object]]:
    manifests = draw(st.lists(documents(odd=True), min_size=1, max_size=2))
    return manifests, [draw(treated(one)) for one in manifests]


@st.composite
def counterparts(draw: Callable[..., Any], manifests: list[Object]) -> list[Object]:
    """What is there already where the manifests go."""
    found: dict[tuple[str, str], Object] = {}
    for one in manifests:
        kind, metadata = one["kind"], {key: value for key, value in one["metadata"].items() if key != "labels"}
        if kind in KINDS and draw(OFTEN):
            rules = st.sampled_from((GOOD_RULES[3:4], GOOD_RULES[:1], GOOD_RULES[:1]))
            content = draw(contents(kind, odd=False)) if kind.endswith("Binding") else {"rules": draw(rules)}
            found[kind, metadata["name"]] = {"apiVersion": f"{API_GROUP}/v1", "kind": kind, "metadata": metadata, **content}
    return list(found.values())


@st.composite
def scenarios(draw: Callable[..., Any]) -> Scenario:
    plain = {"apiGroups": [""], "resources": ["configmaps"], "verbs": LIFE}
    strong = st.sampled_from([{"rules": [GOOD_RULES[3]]}, {"rules": [GOOD_RULES[4]]}, {"aggregationRule": AGGREGATION}])
    versions = draw(st.lists(works(), min_size=1, max_size=2))
    change = None
    if draw(st.booleans()):
        binding = {"subjects": [], "roleRef": {"apiGroup": API_GROUP, "kind": "ClusterRole", "name": f"{WIDE}b"}}
        content = draw(st.one_of(strong, st.just(binding), st.none()))
        change = Change(0 if draw(OFTEN) else 1, content)
    return Scenario(
        holdings=[draw(WRITING), plain, *draw(HELD), *draw(PRIVILEGES)],
        everywhere=draw(OFTEN),
        existing=[*draw(counterparts(versions[0][0])), *draw(st.lists(documents(odd=False), max_size=2))],
        works=versions,
        change=change,
        strict=not draw(OFTEN),
        observed=draw(st.booleans()),
        impersonating=draw(OFTEN),
    )


@pytest.fixture
def arena() -> Iterator[tuple[asyncio.Runner, Arena]]:
    with asyncio.Runner() as runner:
        server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("default",)))
        runner.run(server.start())
        yield runner, Arena(server)
        runner.run(server.stop(grace=0.1))


@pytest.mark.timeout(0 if EXAMPLES else 120)
@pytest.mark.usefixtures("settled")
def test_no_work_brings_about_what_its_executor_could_not(arena: tuple[asyncio.Runner, Arena]) -> None:
    runner, ground = arena

    @settings(
        max_examples=EXAMPLES or SHORT,
        derandomize=not EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(scenarios())
    def play(scenario: Scenario) -> None:
        runner.run(ground.play(scenario))

    play()
    print(f"{EXAMPLES or SHORT} scenarios, {ground.writes} writes held to the law, {ground.refused} manifests refused")
    assert ground.writes > SHORT // 4
    assert ground.refused > SHORT // 4
