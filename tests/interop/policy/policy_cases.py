"""What ConfigurationPolicies go through, for controllers that are to say the same of it: in the manner of upstream's own end-to-end
tests (hub templates, selection, messages, pruning, recreation), with policies of our own.

A case is a policy and its steps. A step does something on a cluster or its hub, brings the policy anew if it says how, and tells
what the policy then says. What the policy is about is in namespaces of its own, so cases can go side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.administrator import Document
from tests.support.policies import ManagedCluster, config_map, encoded, path, secret, template

NAMESPACE: Final = "apps"
"""On each cluster."""
OPEN, CLOSED = "open-shop", "closed-shop"
"""On the hub; templates may read ConfigMaps and Secrets of the first."""
SELECTED: Final = ("chosen-1", "chosen-2", "other-1")
"""Namespaces of each cluster that selectors go by; the first two have a label."""
Act = Callable[[ManagedCluster], object]


@dataclass(frozen=True)
class Step:
    compliant: str
    """Empty: the policy is gone."""
    says: str = ""
    """Somewhere in its last message."""
    bring: Mapping[str, Any] | None = None
    """Its spec."""
    act: Act = lambda cluster: None
    differs: frozenset[str] = frozenset()
    """What is not the same, on purpose: docs/policy.md."""
    makes: Mapping[str, str] | None = None
    """The data of the first object of the case, where the status alone does not tell that the step was taken."""


@dataclass(frozen=True)
class Case:
    name: str
    steps: tuple[Step, ...]
    objects: tuple[tuple[str, str, str], ...] = ()
    """Kind, namespace and name of what is compared too."""
    annotations: Mapping[str, str] = field(default_factory=dict)


def spec(*templates: Document, action: str = "enforce", **more: Any) -> Document:
    return {"remediationAction": action, "object-templates": list(templates), **more}


def settings(name: str, /, **data: str) -> Document:
    return config_map(name, NAMESPACE, data)


def hub_value(place: str, name: str, key: str = "color") -> str:
    return f'{{{{hub fromConfigMap "{place}" "{name}" "{key}" hub}}}}'


def put(*documents: Document) -> Act:
    """As they are, whatever they were."""

    def act(cluster: ManagedCluster) -> None:
        for document in documents:
            metadata = document["metadata"]
            place = path(document["kind"], metadata["namespace"], metadata["name"])
            cluster.admin.apply(place, document, "somebody", force=True).expect(200, 201)

    return act


def remove(name: str, kind: str = "ConfigMap") -> Act:
    return lambda cluster: cluster.admin.delete(path(kind, NAMESPACE, name)).expect(200)


def on_hub(document: Document) -> Act:
    return lambda cluster: cluster.hub.put(document)


def off_hub(name: str) -> Act:
    """Once for all clusters."""
    return lambda cluster: cluster.hub.admin.delete(path("ConfigMap", OPEN, name)).expect(200, 404)


def drop(case: str) -> Act:
    return lambda cluster: cluster.admin.delete(path("ConfigurationPolicy", cluster.name, case)).expect(200)


def namespace(name: str, **labels: str) -> Act:
    return lambda cluster: cluster.admin.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}).expect(201)


def _here(name: str) -> tuple[str, str, str]:
    return ("ConfigMap", NAMESPACE, name)


def _named(kind: str, name: str, **more: Any) -> Document:
    version = "rbac.authorization.k8s.io/v1" if kind.startswith("Role") else "v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, **more}


def _binding(role: str) -> Document:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}
    return _named("RoleBinding", "recreated", roleRef=reference, subjects=[])


def _unplaced(name: str, **data: str) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _labelled(name: str, part: str, **data: str) -> Document:
    made = settings(name, **data)
    made["metadata"]["labels"] = {"part": part}
    return made


HUB_TEMPLATES: Final = (
    Case(
        "hub-object-comes-and-goes",
        (
            Step(
                "NonCompliant",
                "failed to resolve the template",
                spec(template(settings("hub-comes", color=hub_value(OPEN, "comes")))),
            ),
            Step("Compliant", "found as specified", act=on_hub(config_map("comes", OPEN, {"color": "red"}))),
            Step(
                "Compliant", "found as specified", act=on_hub(config_map("comes", OPEN, {"color": "blue"})), makes={"color": "blue"}
            ),
            Step("NonCompliant", "failed to resolve the template", act=off_hub("comes")),
        ),
        (_here("hub-comes"),),
    ),
    Case(
        "hub-read-refused",
        (
            Step(
                "NonCompliant",
                "list and watch permissions",
                spec(template(settings("hub-refused", color=hub_value(CLOSED, "closed")))),
            ),
            Step(
                "Compliant",
                "found as specified",
                spec(template(settings("hub-refused", color=hub_value(CLOSED, "closed"), now="granted"))),
                act=lambda cluster: cluster.hub.grant(cluster.name, CLOSED),
            ),
        ),
        (_here("hub-refused"),),
    ),
    Case(
        "hub-secrets",
        (
            Step(
                "Compliant",
                "found as specified",
                spec(
                    template(secret("copied", NAMESPACE, f'{{{{hub copySecretData "{OPEN}" "pair" hub}}}}')),
                    template(secret("copied-key", NAMESPACE, {"key": f'{{{{hub fromSecret "{OPEN}" "pair" "tls.key" hub}}}}'})),
                ),
            ),
        ),
        (("Secret", NAMESPACE, "copied"), ("Secret", NAMESPACE, "copied-key")),
    ),
    Case(
        "hub-context",
        (
            Step(
                "Compliant",
                "found as specified",
                spec(
                    template(
                        settings(
                            "hub-context",
                            cluster="{{hub .ManagedClusterName hub}}",
                            label='{{hub index .ManagedClusterLabels "cloud" hub}}',
                            both='{{hub .ManagedClusterName hub}}-{{ fromConfigMap "apps" "given" "value" }}',
                        )
                    )
                ),
            ),
        ),
        (_here("hub-context"),),
    ),
    Case(
        "hub-template-with-an-error",
        (
            Step("NonCompliant", "not defined", spec(template(settings("hub-bad", color="{{hub nothing hub}}")))),
            Step("NonCompliant", "missing value for if", spec(template(settings("hub-bad", color="{{hub if hub}}")))),
            Step("Compliant", "found as specified", spec(template(settings("hub-bad", color='{{hub "good" hub}}')))),
            Step(
                "Compliant",
                "found as specified",
                spec(template(settings("hub-bad", color="plain"))),
                differs=frozenset({"kept"}),
            ),
        ),
        (_here("hub-bad"),),
    ),
)

CHECKS: Final = (
    Case(
        "musthave-informed",
        (
            Step("NonCompliant", "not found", spec(template(settings("informed", a="1")), action="inform")),
            Step("NonCompliant", "found but not as specified", act=put(settings("informed", a="2", b="3"))),
            Step("Compliant", "found as specified", act=put(settings("informed", a="1", b="3"))),
        ),
        (_here("informed"),),
    ),
    Case(
        "musthave-enforced",
        (
            Step("Compliant", "found as specified", spec(template(settings("enforced", a="1")))),
            Step("Compliant", "found as specified", act=put(settings("enforced", a="2")), makes={"a": "1"}),
            Step("Compliant", "found as specified", act=remove("enforced"), makes={"a": "1"}),
        ),
        (_here("enforced"),),
    ),
    Case(
        "mustnothave",
        (
            Step("Compliant", "missing as expected", spec(template(settings("unwanted"), "mustnothave"), action="inform")),
            Step("NonCompliant", "found", act=put(settings("unwanted", a="1"))),
            Step("Compliant", "missing as expected", spec(template(settings("unwanted"), "mustnothave"))),
        ),
        (_here("unwanted"),),
    ),
    Case(
        "mustonlyhave",
        (
            Step(
                "NonCompliant",
                "found but not as specified",
                spec(template(settings("only", a="1"), "mustonlyhave"), action="inform"),
                act=put(settings("only", a="1", b="2")),
            ),
            Step("Compliant", "found as specified", spec(template(settings("only", a="1"), "mustonlyhave"))),
        ),
        (_here("only"),),
    ),
    Case(
        "several-templates",
        (
            Step(
                "NonCompliant",
                "not found",
                spec(
                    template(settings("given", value="as it is")),
                    template(settings("absent", a="1")),
                    template(settings("absent-too"), "mustnothave"),
                    action="inform",
                ),
            ),
        ),
    ),
    Case(
        "a-kind-without-a-name",
        (
            Step(
                "NonCompliant",
                "",
                spec(
                    template({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "chosen-1"}, "data": {"q": "1"}}),
                    action="inform",
                ),
            ),
        ),
    ),
    Case(
        "a-kind-that-is-not-there",
        (
            Step(
                "NonCompliant",
                "",
                spec(
                    template({"apiVersion": "example.com/v1", "kind": "Unheard", "metadata": {"name": "x", "namespace": NAMESPACE}})
                ),
            ),
        ),
    ),
    Case(
        "a-namespace-that-is-not-there",
        (
            Step("NonCompliant", "", spec(template(config_map("x", "nowhere", {"a": "1"})))),
            Step("Compliant", "found as specified", act=namespace("nowhere")),
        ),
    ),
    Case(
        "what-the-server-refuses",
        (Step("NonCompliant", "", spec(template(_named("ConfigMap", "refused", data="text")))),),
    ),
    Case(
        "differences-in-status",
        (
            Step(
                "NonCompliant",
                "found but not as specified",
                spec(template(settings("diff", a="2"), recordDiff="InStatus"), action="inform"),
                act=put(settings("diff", a="1")),
            ),
            Step("Compliant", "found as specified", spec(template(settings("diff", a="2"), recordDiff="InStatus"))),
        ),
        (_here("diff"),),
    ),
)

TEMPLATES: Final = (
    Case(
        "managed-template-with-an-error",
        (
            Step("NonCompliant", "", spec(template(settings("bad", a='{{ fromConfigMap "apps" "late" "v" }}')))),
            Step("Compliant", "found as specified", act=put(settings("late", v="here"))),
        ),
        (_here("bad"),),
    ),
    Case(
        "raw-templates",
        (
            Step(
                "Compliant",
                "found as specified",
                {
                    "remediationAction": "enforce",
                    "object-templates-raw": (
                        '{{ range $i, $v := list "x" "y" }}\n'
                        "- complianceType: musthave\n"
                        "  objectDefinition:\n"
                        "    apiVersion: v1\n"
                        "    kind: ConfigMap\n"
                        "    metadata: {name: raw-{{ $v }}, namespace: apps}\n"
                        '    data: {at: "{{ $i }}"}\n'
                        "{{ end }}"
                    ),
                },
            ),
        ),
        (_here("raw-x"), _here("raw-y")),
    ),
    Case(
        "raw-templates-that-fail",
        (Step("NonCompliant", "", {"remediationAction": "inform", "object-templates-raw": '{{ fail "as said" }}'}),),
    ),
    Case(
        "templates-disabled",
        (Step("Compliant", "found as specified", spec(template(settings("verbatim", a="{{ .Nothing }}")))),),
        (_here("verbatim"),),
        {"policy.open-cluster-management.io/disable-templates": "true"},
    ),
)

SELECTION: Final = (
    Case(
        "namespaces-by-name",
        (
            Step(
                "Compliant",
                "found as specified",
                spec(template(_unplaced("by-name", a="1")), namespaceSelector={"include": ["chosen-*"], "exclude": ["*-2"]}),
            ),
        ),
        tuple(("ConfigMap", one, "by-name") for one in SELECTED),
    ),
    Case(
        "namespaces-by-label",
        (
            Step(
                "NonCompliant",
                "not found in namespaces",
                spec(template(_unplaced("by-label", a="1")), action="inform", namespaceSelector={"matchLabels": {"chosen": "yes"}}),
            ),
            Step(
                "Compliant",
                "found as specified",
                spec(template(_unplaced("by-label", a="1")), namespaceSelector={"matchLabels": {"chosen": "yes"}}),
            ),
            Step("Compliant", "chosen-3", act=namespace("chosen-3", chosen="yes")),
        ),
        tuple(("ConfigMap", one, "by-label") for one in (*SELECTED, "chosen-3")),
    ),
    Case(
        "no-namespace-is-selected",
        (
            Step(
                "NonCompliant",
                "",
                spec(template(_unplaced("by-nobody", a="1")), namespaceSelector={"matchLabels": {"chosen": "never"}}),
            ),
        ),
    ),
    Case(
        "objects-by-label",
        (
            Step(
                "NonCompliant",
                "",
                spec(
                    template(
                        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": NAMESPACE}, "data": {"a": "1"}},
                        objectSelector={"matchLabels": {"part": "front"}},
                    ),
                    action="inform",
                ),
                act=put(_labelled("front-1", "front", a="1"), _labelled("front-2", "front", a="2"), _labelled("back", "back")),
            ),
            Step(
                "Compliant",
                "found as specified",
                spec(
                    template(
                        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": NAMESPACE}, "data": {"a": "1"}},
                        objectSelector={"matchLabels": {"part": "front"}},
                    )
                ),
            ),
        ),
        (_here("front-1"), _here("front-2"), _here("back")),
    ),
    Case(
        "no-object-is-selected",
        (
            Step(
                "Compliant",
                "were matched from the policy objectSelector",
                spec(
                    template(
                        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": NAMESPACE}, "data": {"a": "1"}},
                        objectSelector={"matchExpressions": [{"key": "part", "operator": "In", "values": ["nowhere"]}]},
                    ),
                    action="inform",
                ),
            ),
        ),
    ),
)

MESSAGES: Final = (
    Case(
        "messages-of-ones-own",
        (
            Step(
                "NonCompliant",
                "not here: ",
                spec(
                    template(settings("told", a="1")),
                    action="inform",
                    customMessage={
                        "compliant": "{{ .Policy.metadata.name }} is here",
                        "noncompliant": "not here: {{ .DefaultMessage }}",
                    },
                ),
            ),
            Step("Compliant", "messages-of-ones-own is here", act=put(settings("told", a="1"))),
        ),
    ),
    Case(
        "a-message-that-fails",
        (
            Step(
                "Compliant",
                "",
                spec(template(settings("told-badly", a="1")), customMessage={"compliant": "{{ .Nothing.at.all | fail }}"}),
            ),
        ),
    ),
    Case(
        "a-message-of-related-objects",
        (
            Step(
                "Compliant",
                "about told-of",
                spec(
                    template(settings("told-of", a="1")),
                    customMessage={
                        "compliant": "about {{ range (index .Policy.status.relatedObjects) }}{{ .object.metadata.name }}{{ end }}"
                    },
                ),
            ),
        ),
    ),
)

PRUNING: Final = (
    Case(
        "prune-what-was-created",
        (
            Step(
                "Compliant",
                "found as specified",
                spec(
                    template(settings("pruned-new", a="1")),
                    template(settings("pruned-old", a="1")),
                    pruneObjectBehavior="DeleteIfCreated",
                ),
                act=put(settings("pruned-old", a="0")),
            ),
            Step(
                "Compliant",
                "found as specified",
                spec(template(settings("pruned-next", a="1")), pruneObjectBehavior="DeleteIfCreated"),
            ),
            Step("", act=drop("prune-what-was-created")),
        ),
        (_here("pruned-new"), _here("pruned-old"), _here("pruned-next")),
    ),
    Case(
        "prune-all",
        (
            Step(
                "Compliant",
                "found as specified",
                spec(template(settings("all-new", a="1")), template(settings("all-old", a="1")), pruneObjectBehavior="DeleteAll"),
                act=put(settings("all-old", a="0")),
            ),
            Step("", act=drop("prune-all")),
        ),
        (_here("all-new"), _here("all-old")),
    ),
    Case(
        "prune-nothing",
        (
            Step("Compliant", "found as specified", spec(template(settings("kept", a="1")))),
            Step("", act=drop("prune-nothing")),
        ),
        (_here("kept"),),
    ),
    Case(
        "recreate-if-required",
        (
            Step("NonCompliant", "", spec(template(_binding("new"))), act=put(_binding("old"))),
            Step("Compliant", "found as specified", spec(template(_binding("new"), recreateOption="IfRequired"))),
        ),
        (("RoleBinding", NAMESPACE, "recreated"),),
    ),
    Case(
        "recreate-always",
        (
            Step(
                "Compliant",
                "found as specified",
                spec(template(settings("again", a="2"), recreateOption="Always")),
                act=put(settings("again", a="1", b="lost")),
            ),
        ),
        (_here("again"),),
    ),
)

CASES: Final = {case.name: case for case in (*HUB_TEMPLATES, *CHECKS, *TEMPLATES, *SELECTION, *MESSAGES, *PRUNING)}
PAIR: Final = secret("pair", OPEN, {"tls.crt": encoded("a certificate"), "tls.key": encoded("a key")})
