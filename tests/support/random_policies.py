"""Random ConfigurationPolicies with the objects of a cluster, for upstream's dryrun and ours.

Objects and templates are made of one structure, changed a little for each, so that they match, nearly match or clash. Built-in
kinds are well-formed, since upstream's fake refuses others; `Widget` is a custom kind whose content is anything. Each seed gives
the same world.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from muster.machinery.objects import GVR, Object
from muster.policy.dryrun.mappings import DEFAULT_KINDS

WIDGETS: Final = GVR("example.com/v1", "widgets", "Widget")
KINDS: Final = (*DEFAULT_KINDS, WIDGETS)
_NAMESPACES: Final = ("default", "shop", "shop-2", "lab", "lab-10")
_SCALARS: Final[tuple[Any, ...]] = (
    *("a", "b", "c", "", "1", "80", "1000m", "1Gi", "1024Mi", "true", "null", "a: b", "yes", "0x1F", "x\ny", " x", "é"),
    *(0, 1, 80, 1000000, True, False, None, 0.5, 1500000.5),
)
_QUANTITIES: Final = ("1", "1000m", "500m", "1Gi", "1024Mi", "0.5")
_KEYS: Final = ("a", "b", "c", "name", "n", "key2", "key10", "x.y", "Z")
_COMPLIANCE: Final = ("musthave", "mustonlyhave", "mustnothave", "MustHave", "MustOnlyHave", "MustNotHave")
_PATTERNS: Final = ("shop*", "lab-?", "*", "[ls]*", "default", "none", "shop-[0-9]", "[!x]*", "\\\\lab")


_CONFIG: Final[Object] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "config", "namespace": "shop", "labels": {"env": "a"}},
    "data": {"a": "a", "image": "nginx:2", "number": "80", "flag": "true", "list": "[1, 2]"},
}
_CREDENTIALS: Final[Object] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "creds", "namespace": "shop"},
    "data": {"user": "dXNlcg==", "pass": "cGFzcw=="},
}
_EXPRESSIONS: Final = (
    '{{ "a" }}',
    '{{ "A" | lower }}',
    '{{ fromConfigMap "shop" "config" "a" }}',
    'nginx:{{ (lookup "v1" "ConfigMap" "shop" "config").data.image | trimPrefix "nginx:" }}',
    '{{ fromConfigMap "shop" "config" "number" | toInt }}',
    '{{ fromConfigMap "shop" "config" "flag" | toBool }}',
    '{{ fromConfigMap "shop" "config" "list" | toLiteral }}',
    '{{ fromSecret "shop" "creds" "user" }}',
    '{{ fromSecret "shop" "creds" "pass" | base64dec }}',
    '{{ fromConfigMap "shop" "missing" "a" }}',
    "{{ .ObjectName }}",
    "{{ .ObjectNamespace }}",
    "{{ .Object.kind }}",
    '{{ if eq .ObjectName "one" }}a{{ else }}b{{ end }}',
    '{{ (lookup "v1" "Namespace" "" "shop").metadata.name }}',
    '{{ range (lookup "v1" "ConfigMap" "shop" "" "env=a").items }}{{ .metadata.name }} {{ end }}',
    *('{{ "b" }}', '{{ printf "%s" "c" }}', '{{ "1Gi" }}', '{{ "80" }}', '{{ empty "" }}') * 3,
    "{{ .None }}",
)
_SKIPS: Final = (
    '{{ skipObject (eq .ObjectName "two") }}x',
    '{{ if hasPrefix "shop" .ObjectNamespace }}{{ skipObject }}{{ end }}x',
    "{{ skipObject false }}x",
    "{{ skipObject }}x",
    '{{ skipObject "yes" }}x',
    "{{ skipObject (not .Object) }}x",
)


class _Fixed(str):
    """A text that must stay as it is."""


class _Quantity(str):
    """A text that must stay a quantity."""


@dataclass
class RandomPolicy:
    seed: int
    templated: bool = False
    """Whether templates of the policy are to be resolved."""
    policy: Object = field(init=False)
    objects: list[Object] = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self.objects = [self._namespace(name) for name in _NAMESPACES[1:]]
        templates = [self._template() for _ in range(self._random.choice((1, 1, 1, 2, 3)))]
        if self.templated:
            self.objects += [_CONFIG, _CREDENTIALS]
            templates = [self._with_templates(template) for template in templates]
        spec: Object = {"remediationAction": "inform"}
        if self._chance(0.15):
            spec["object-templates-raw"] = orjson.dumps(templates, option=orjson.OPT_INDENT_2).decode()
        else:
            spec["object-templates"] = templates
        if self._chance(0.6):
            spec["namespaceSelector"] = self._namespace_selector()
        if self._chance(0.15):
            spec["customMessage"] = self._custom_message()
        self.policy = {
            "apiVersion": "policy.open-cluster-management.io/v1",
            "kind": "ConfigurationPolicy",
            "metadata": {"name": "random", "namespace": "managed"},
            "spec": spec,
        }
        self._random.shuffle(self.objects)
        self.policy, self.objects = orjson.loads(orjson.dumps((self.policy, self.objects)))

    @property
    def world(self) -> Object:
        """In the words of `peers/policy`."""
        return {"policy": self.policy, "objects": self.objects}

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    # Objects and templates

    def _namespace(self, name: str) -> Object:
        labels = {"env": self._random.choice(("prod", "dev"))} if self._chance(0.7) else {}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}

    def _template(self) -> Object:
        kind, content = self._random.choice(_CONTENTS)
        api_version = next(known.api_version for known in KINDS if known.kind == kind)
        namespaced = next(known.namespaced for known in KINDS if known.kind == kind)
        structure = content(self)
        names = self._random.sample(("one", "two", "three"), self._random.choice((1, 1, 2)))
        namespaces = self._random.sample(_NAMESPACES, self._random.choice((1, 1, 2, 3))) if namespaced else [""]
        for namespace in namespaces:
            for name in names:
                if self._chance(0.85):
                    self.objects.append(self._object(api_version, kind, namespace, name, self._changed(structure, 0.12)))
        definition: Object = {"apiVersion": api_version, "kind": kind}
        definition |= self._part(self._changed(structure, 0.08))
        metadata = definition.pop("metadata", {})
        unnamed = self._chance(0.25)
        if not unnamed:
            metadata["name"] = names[0]
        if namespaced and self._chance(0.55):
            metadata["namespace"] = namespaces[0]
        if metadata or self._chance(0.5):
            definition["metadata"] = metadata
        template: Object = {"complianceType": self._random.choice(_COMPLIANCE), "objectDefinition": definition}
        if self._chance(0.2):
            template["metadataComplianceType"] = self._random.choice(("musthave", "mustonlyhave"))
        if self._chance(0.4):
            template["recordDiff"] = self._random.choice(("InStatus", "InStatus", "None", "Log"))
        if self._chance(0.3 if unnamed else 0.05):
            template["objectSelector"] = self._label_selector()
        return template

    def _object(self, api_version: str, kind: str, namespace: str, name: str, content: Object) -> Object:
        metadata = {**content.pop("metadata", {}), "name": name}
        if namespace:
            metadata["namespace"] = namespace
        if isinstance(metadata.get("annotations"), dict) and self._chance(0.2):
            metadata["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}

    def _metadata(self) -> Object:
        metadata: Object = {}
        for key in ("labels", "annotations"):
            if self._chance(0.5):
                metadata[key] = {self._random.choice(("env", "tier", "app.kubernetes.io/name")): self._random.choice("abc")}
        return metadata

    def _part(self, content: Object) -> Object:
        """Some fields of it."""
        return {key: value for key, value in content.items() if self._chance(0.85)}

    def _changed(self, value: Any, rate: float) -> Any:
        """The same structure with changes here and there, each of its kind: texts stay texts."""
        if isinstance(value, dict) and isinstance(value.get("name"), _Fixed):
            return value
        if isinstance(value, dict):
            return {key: self._changed(item, rate) for key, item in value.items() if not self._chance(rate / 2)}
        if isinstance(value, list):
            items = [self._changed(item, rate) for item in value if not self._chance(rate)]
            if items and self._chance(rate):
                items.append(self._changed(self._random.choice(items), rate))
            if self._chance(rate * 2):
                self._random.shuffle(items)
            return items
        if isinstance(value, _Fixed) or not self._chance(rate):
            return value
        if isinstance(value, _Quantity):
            return _Quantity(self._random.choice(_QUANTITIES))
        if isinstance(value, str):
            return self._random.choice([text for text in _SCALARS if isinstance(text, str)])
        return value if value is None or isinstance(value, bool) else value + 1

    def _anything(self, depth: int = 0) -> Any:
        roll = self._random.random()
        if depth > 3 or roll < 0.5:
            return self._random.choice(_SCALARS)
        if roll < 0.75:
            return {self._random.choice(_KEYS): self._anything(depth + 1) for _ in range(self._random.randrange(4))}
        items = [self._anything(depth + 1) for _ in range(self._random.randrange(4))]
        kinds = {type(item) for item in items}
        # A list of one kind of item, as lists are; mixed ones now and then.
        return items if len(kinds) < 2 or self._chance(0.2) else [item for item in items if type(item) is type(items[0])]

    def widget(self) -> Object:
        content: Object = {"spec": {self._random.choice(_KEYS): self._anything() for _ in range(self._random.randrange(1, 5))}}
        if self._chance(0.3):
            content["status"] = {self._random.choice(("phase", "ready")): self._random.choice(_SCALARS)}
        if self._chance(0.3):
            content["entries"] = [self._anything(2) for _ in range(3)]
        if self._chance(0.2):
            content["extra"] = self._anything()
        if self._chance(0.5):
            content["metadata"] = self._metadata()
        return content

    def config_map(self) -> Object:
        texts = [text for text in _SCALARS if isinstance(text, str)]
        data = {self._random.choice(_KEYS): self._random.choice(texts) for _ in range(self._random.randrange(1, 5))}
        return {"metadata": self._metadata(), "data": data}

    def secret(self) -> Object:
        data = {key: _Fixed(base64.b64encode(key.encode()).decode()) for key in self._random.sample(("user", "pass", "a"), 2)}
        content: Object = {"data": data, "type": "Opaque", "metadata": self._metadata()}
        if self._chance(0.3):
            content["stringData"] = {"user": self._random.choice(("user", "other"))}
        return content

    def role(self) -> Object:
        verbs = ("get", "list", "watch", "create")
        rules = [
            {
                "apiGroups": [self._random.choice(("", "apps"))],
                "resources": self._random.sample(("pods", "secrets", "services"), self._random.randrange(1, 3)),
                "verbs": self._random.sample(verbs, self._random.randrange(1, 4)),
            }
            for _ in range(self._random.randrange(1, 3))
        ]
        return {"metadata": self._metadata(), "rules": rules}

    def pod(self) -> Object:
        containers = []
        for name in self._random.sample(("web", "side", "init"), self._random.randrange(1, 3)):
            container: Object = {"name": name, "image": f"nginx:{self._random.choice('123')}"}
            if self._chance(0.5):
                limits = {key: _Quantity(self._random.choice(_QUANTITIES)) for key in ("cpu", "memory")}
                container["resources"] = {"limits": limits}
            if self._chance(0.5):
                container["ports"] = [{"containerPort": port} for port in self._random.sample((80, 443, 8080), 2)]
            if self._chance(0.3):
                container["args"] = self._random.sample(("--a", "--b", "--c"), 2)
            containers.append(container)
        content: Object = {"metadata": self._metadata(), "spec": {"containers": containers}}
        if self._chance(0.3):
            content["status"] = {"phase": self._random.choice(("Running", "Pending"))}
        return content

    def deployment(self) -> Object:
        labels = {"app": "x"}
        pod = self.pod()
        pod.pop("status", None)
        spec = {
            "replicas": self._random.choice((0, 1, 3)),
            "selector": {"matchLabels": labels},
            "template": {**pod, "metadata": {"labels": labels}},
        }
        return {"metadata": self._metadata(), "spec": spec}

    def service_account(self) -> Object:
        content: Object = {"metadata": self._metadata()}
        for key in ("secrets", "imagePullSecrets"):
            if self._chance(0.5):
                content[key] = [{"name": _Fixed(name)} for name in self._random.sample(("s1", "s2"), self._random.randrange(1, 3))]
        return content

    # Templates of managed clusters

    def _with_templates(self, template: Object) -> Object:
        definition = self._sprinkled(template["objectDefinition"])
        metadata = dict(definition.get("metadata") or {})
        if "name" in metadata and self._chance(0.15):
            metadata["name"] = f'{{{{ "{metadata["name"]}" | trim }}}}'
        elif "objectSelector" in template and self._chance(0.3):
            metadata["name"] = "{{ .ObjectName }}"
        if self._chance(0.1):
            metadata["namespace"] = self._random.choice(("{{ .ObjectNamespace }}", '{{ "shop" }}', '{{ "" }}'))
        if self._chance(0.15):
            metadata["annotations"] = {"skip": self._random.choice(_SKIPS)}
        return {**template, "objectDefinition": {**definition, "metadata": metadata}}

    def _sprinkled(self, value: Any, key: str = "") -> Any:
        """With templates instead of some texts, where there may be any."""
        if key in ("kind", "apiVersion", "name", "namespace"):
            return value
        if isinstance(value, dict):
            return {name: self._sprinkled(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self._sprinkled(item) for item in value]
        return self._random.choice(_EXPRESSIONS) if isinstance(value, str) and self._chance(0.2) else value

    # Selectors and messages

    def _label_selector(self) -> Object:
        roll = self._random.randrange(4)
        if roll == 0:
            return {}
        if roll == 1:
            return {"matchLabels": {"env": self._random.choice("abc")}}
        operator = self._random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        expression: Object = {"key": self._random.choice(("env", "tier")), "operator": operator}
        if operator in ("In", "NotIn"):
            expression["values"] = self._random.sample(("a", "b", "prod", "dev"), 2)
        return {"matchExpressions": [expression]}

    def _namespace_selector(self) -> Object:
        selector: Object = {}
        if self._chance(0.7):
            selector["include"] = self._random.sample(_PATTERNS, self._random.choice((1, 2)))
        if self._chance(0.3):
            selector["exclude"] = self._random.sample(_PATTERNS, 1)
        if self._chance(0.3):
            selector |= self._label_selector()
        if self._chance(0.05):
            selector["include"] = ["["]
        return selector

    def _custom_message(self) -> Object:
        templates = (
            "{{ .DefaultMessage }}",
            "{{ .Policy.metadata.name }} on {{ len .Policy.status.relatedObjects }}",
            "{{ range .Policy.status.relatedObjects }}{{ .object.metadata.name }}={{ .compliant }} {{ end }}",
            "NonCompliant; {{ .Policy.status.compliant | upper }}",
            "{{ .None.x.y }}",
            "{{ fail",
        )
        return {key: self._random.choice(templates) for key in ("compliant", "noncompliant") if self._chance(0.8)}


_CONTENTS: Final[tuple[tuple[str, Callable[[RandomPolicy], Object]], ...]] = (
    *(("Widget", RandomPolicy.widget),) * 4,
    ("ConfigMap", RandomPolicy.config_map),
    ("Secret", RandomPolicy.secret),
    ("Role", RandomPolicy.role),
    ("ClusterRole", RandomPolicy.role),
    ("Pod", RandomPolicy.pod),
    ("Deployment", RandomPolicy.deployment),
    ("ServiceAccount", RandomPolicy.service_account),
)
