"""What may be in a work, whoever writes it: sizes, names, expressions; and that only what is new is judged."""

from typing import Any

import orjson
import pytest

from muster.api.work.v1 import ManifestWork
from muster.work.hub.webhooks.configs import config_problem
from muster.work.hub.webhooks.executors import AGENT, Executor, MalformedExecutor, concerned, executor_of
from muster.work.hub.webhooks.manifests import manifest_problem, manifest_warnings, manifests_of
from muster.work.hub.webhooks.works import ReviewedWork, shape_problem
from tests.unit.work.hub.conftest import config_map, executor, spec, work

LIMIT = 512_000
EMPTY = "manifests should not be empty"


def problem(new: dict[str, Any], old: dict[str, Any] | None = None, limit: int = LIMIT) -> str | None:
    typed = ManifestWork.decode(work("w", new)).spec
    return shape_problem(ReviewedWork(new, old, typed, "spec", "Manifestwork", "cluster1", EMPTY), limit)


def sized(total: int, name: str = "big") -> dict[str, Any]:
    """A manifest that counts as so many bytes: three for the length, one for the tag, the rest its JSON."""
    bare = config_map(name, data={"x": ""})
    return config_map(name, data={"x": "a" * (total - 4 - len(orjson.dumps(bare)))})


def test_a_work_may_be_as_large_as_the_limit_and_not_a_byte_larger() -> None:
    assert problem(spec(sized(LIMIT))) is None
    assert problem(spec(sized(LIMIT + 1))) == (
        "the size of manifests is 512001 bytes which exceeds the 512000 limit: ConfigMap app/big has 512001"
    )


def test_what_go_escapes_counts_as_go_writes_it() -> None:
    plain, escaped = (manifests_of(spec(config_map(data={"x": text})))[0] for text in ("aaa", "<&>"))
    assert escaped.size == plain.size + 15
    (separator,) = manifests_of(spec(config_map(data={"x": "\u2028"})))
    assert separator.size == plain.size + 3


def test_the_largest_manifests_are_named() -> None:
    found = problem(spec(*(sized(100_000 + number, f"m{number}") for number in range(7))))
    assert found is not None
    assert found.endswith(
        ": ConfigMap app/m6 has 100006, ConfigMap app/m5 has 100005, ConfigMap app/m4 has 100004, "
        "ConfigMap app/m3 has 100003, ConfigMap app/m2 has 100002, and 2 more"
    )


def test_a_work_that_is_too_large_already_may_shrink_but_not_grow() -> None:
    stored = spec(sized(900))
    assert problem(spec(sized(800)), stored, limit=500) is None
    assert problem(spec(sized(901)), stored, limit=500) is not None


def test_a_work_has_manifests() -> None:
    assert problem({"workload": {"manifests": []}}) == EMPTY
    assert problem({}) == EMPTY
    assert problem({}, spec()) == EMPTY
    assert problem({"deleteOption": {"propagationPolicy": "Orphan"}}, {}) is None


def nameless(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@pytest.mark.parametrize(
    ("manifests", "text"),
    [
        ([config_map(), nameless()], "name must be set in manifest of kind ConfigMap: spec.workload.manifests[1]"),
        ([nameless(generateName="a-")], "name must be set in manifest of kind ConfigMap: spec.workload.manifests[0]"),
        (
            [nameless(name="a", generateName="a-")],
            "generateName must not be set in manifest of kind ConfigMap: spec.workload.manifests[0]",
        ),
        (
            [config_map("a"), config_map("b"), config_map("a", data={"other": "content"})],
            "duplicate manifest for resource app/a with resource type v1.ConfigMap: "
            "spec.workload.manifests[0] and spec.workload.manifests[2]",
        ),
    ],
)
def test_every_manifest_has_a_name_of_its_own(manifests: list[dict[str, Any]], text: str) -> None:
    assert problem(spec(*manifests)) == text


def test_the_same_name_in_another_namespace_kind_or_version_is_another_object() -> None:
    other = config_map()
    assert (
        problem(spec(config_map(), {**other, "kind": "Secret"}, {**other, "metadata": {"name": "cm1", "namespace": "b"}})) is None
    )
    assert problem(spec(config_map(), {**other, "apiVersion": "v2"})) is None


def test_what_was_wrong_before_may_stay_but_not_become_more() -> None:
    stored = spec(nameless(), config_map("a"), config_map("a", data={"x": "y"}))
    assert problem(spec(nameless(), config_map("a"), config_map("a", data={"x": "z"})), stored) is None
    assert problem(spec(nameless(labels={"a": "b"})), stored) is not None
    assert problem(spec(*(config_map("a", data={"x": str(number)}) for number in range(3))), stored) is not None


def config(**parts: Any) -> dict[str, Any]:
    return {"resourceIdentifier": {"resource": "configmaps", "name": "cm1"}, **parts}


def feedback(path: str) -> dict[str, Any]:
    return config(feedbackRules=[{"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": path}]}])


def rule(expression: str, **more: Any) -> dict[str, Any]:
    return config(conditionRules=[{"type": "CEL", "condition": "Ready", "celExpressions": [expression], **more}])


def ignoring(path: str) -> dict[str, Any]:
    fields = [{"condition": "OnSpokePresent", "jsonPaths": [path]}]
    return config(updateStrategy={"type": "ServerSideApply", "serverSideApply": {"ignoreFields": fields}})


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        (feedback(".status["), "feedbackRules[0].jsonPaths[0].path: '.status[' is no JSONPath: unterminated array"),
        (rule("object.a =="), "conditionRules[0].celExpressions[0]: 'object.a ==' is no CEL expression: "),
        (rule("true", messageExpression="'a"), 'conditionRules[0].messageExpression: "\'a" is no CEL expression: '),
        (ignoring(".spec.x[?(@"), "updateStrategy.serverSideApply.ignoreFields[0].jsonPaths[0]: '.spec.x[?(@' is no JSONPath: "),
    ],
)
def test_expressions_that_no_agent_can_parse_are_refused_unless_they_were_there(bad: dict[str, Any], place: str) -> None:
    found = problem(spec(manifestConfigs=[config(), bad]))
    assert found is not None
    assert found.startswith(f"spec.manifestConfigs[1].{place}")
    assert "\n" not in found
    stored = spec(manifestConfigs=[bad])
    assert problem(spec(config_map("other"), manifestConfigs=[config(), bad]), stored) is None


@pytest.mark.parametrize(
    "good",
    [
        feedback(".status.conditions[?(@.type=='Ready')].status"),
        rule("object.?status.?phase.orValue('') in ['a'] && object.items.exists(i, has(i.x)) && unheardOf(object)"),
        rule("true", messageExpression="result ? 'yes' : 'no'"),
        ignoring(".spec.replicas"),
        config(feedbackRules=[{"type": "WellKnownStatus"}]),
    ],
)
def test_expressions_that_agents_parse_are_accepted(good: dict[str, Any]) -> None:
    assert problem(spec(manifestConfigs=[good])) is None


def test_the_place_in_a_replica_set_is_told() -> None:
    content = spec(nameless(), manifestConfigs=[feedback("[")])
    manifests = manifests_of(content)
    assert (manifest_problem(manifests, [], LIMIT, "spec.template") or "").endswith(": spec.template.workload.manifests[0]")
    typed = ManifestWork.decode(work("w", content)).spec
    assert (config_problem(typed.manifest_configs, content, {}, "spec.template") or "").startswith(
        "spec.template.manifestConfigs[0]"
    )


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "subject"),
        ({"subject": None}, "subject"),
        ({"subject": {}}, "subject.type"),
        ({"subject": {"type": "User"}}, "subject.type"),
        ({"subject": {"type": "ServiceAccount"}}, "subject.serviceAccount"),
        (executor(("", "klusterlet-work-sa")), "subject.serviceAccount.namespace"),
        (executor(("ns", "B_d")), "subject.serviceAccount.name"),
        (executor(("ns", "x" * 254)), "subject.serviceAccount.name"),
        (
            {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": 1, "name": "a"}}},
            "subject.serviceAccount.namespace",
        ),
        ("text", "subject"),
    ],
)
def test_what_is_no_executor_names_its_field(value: Any, field: str) -> None:
    with pytest.raises(MalformedExecutor) as malformed:
        executor_of({"executor": value})
    assert malformed.value.field == f"spec.executor.{field}"


A, B = Executor("ns", "a"), Executor("ns", "b")


@pytest.mark.parametrize(
    ("new", "old", "is_new", "nil_counts", "expected"),
    [
        (A, None, True, False, (A,)),
        (A, None, True, True, (A,)),
        (None, None, True, False, ()),
        (None, None, True, True, (AGENT,)),
        (A, A, False, False, (A,)),
        (B, A, False, False, (B, A)),
        (None, A, False, False, (A,)),
        (None, A, False, True, (AGENT, A)),
        (A, None, False, False, (A,)),
        (A, None, False, True, (A, AGENT)),
        (None, None, False, True, (AGENT,)),
    ],
)
def test_a_change_concerns_who_it_will_run_as_and_who_it_ran_as(
    new: Executor | None, old: Executor | None, is_new: bool, nil_counts: bool, expected: tuple[Executor, ...]
) -> None:
    assert concerned(new, old, is_new=is_new, nil_counts=nil_counts) == expected


def warnings(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return manifest_warnings(manifests_of(new), manifests_of(old or {}))


def bare(api_version: str, kind: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}


def test_whoever_forgets_a_namespace_is_warned_where_the_hub_knows_that_one_is_needed() -> None:
    homeless = spec(config_map("fine"), bare("v1", "ConfigMap"), bare("apps/v1", "Deployment"))
    assert warnings(homeless) == [
        "spec.workload.manifests[1]: ConfigMap x has no metadata.namespace and cannot be applied",
        "spec.workload.manifests[2]: Deployment x has no metadata.namespace and cannot be applied",
    ]
    assert warnings(homeless, homeless) == []
    assert problem(homeless) is None


def test_of_kinds_without_namespaces_and_of_strange_ones_nothing_is_said() -> None:
    assert warnings(spec(bare("v1", "Namespace"), bare("rbac.authorization.k8s.io/v1", "ClusterRole"))) == []
    assert warnings(spec(bare("example.org/v1", "ConfigMap"), bare("v1", "Strange"))) == []


def test_nobody_is_warned_a_hundred_times() -> None:
    assert len(warnings(spec(*({**bare("v1", "Secret"), "metadata": {"name": f"s{n}"}} for n in range(100))))) == 5
