"""Random documents with templates, and the options to resolve them with; the same ones for the same seed.

Actions are drawn from the resolver's own functions and what is usually piped into them, and from the grammar of
`interop/gotemplate` for everything else that a template may say. Values in the cluster are as odd as YAML's scalars can be, for
they become YAML again.
"""

from __future__ import annotations

import base64
import json
import random
from dataclasses import dataclass, field
from typing import Any

from muster.gotemplate.builtins import BUILTINS
from muster.gotemplate.sprig import SPRIG
from muster.machinery.objects import Object
from muster.policy.resolver import Encryption
from muster.policy.resolver.encryption import protect
from tests.interop.gotemplate import vocabulary as voc
from tests.interop.gotemplate.grammar import Grammar, Vocabulary
from tests.interop.policy.yaml_documents import WORDS, Documents

CLAIMS = "cluster.open-cluster-management.io/v1alpha1"
KINDS = [
    {"apiVersion": "v1", "kind": "ConfigMap", "resource": "configmaps", "namespaced": True},
    {"apiVersion": "v1", "kind": "Secret", "resource": "secrets", "namespaced": True},
    {"apiVersion": "v1", "kind": "Pod", "resource": "pods", "namespaced": True},
    {"apiVersion": "v1", "kind": "Node", "resource": "nodes", "namespaced": False},
    {"apiVersion": "v1", "kind": "Namespace", "resource": "namespaces", "namespaced": False},
    {"apiVersion": "apps/v1", "kind": "Deployment", "resource": "deployments", "namespaced": True},
    {"apiVersion": CLAIMS, "kind": "ClusterClaim", "resource": "clusterclaims", "namespaced": False},
]
NAMESPACES = (*("shop",) * 30, "back", "", "gone")
NAMES = {
    "ConfigMap": (*("settings", "settings", "odd", "bare", "zone-a", "zone-b") * 5, "gone"),
    "Secret": (*("creds", "creds", "tls", "empty") * 6, "gone"),
}
DATA_KEYS = ("color", "size", "enabled", "list", "map", "text", "day", "k0", "k1", "k2", "k3", "gone")
SECRET_KEYS = ("user", "pass", "s0", "gone")
SELECTORS = (
    "tier=web",
    "tier!=web",
    "zone in (a,b)",
    "zone",
    "!zone",
    "tier=web,zone=a",
    "a==b==c",
    "tier in (",
    "zone notin (a)",
    "",
)
ROLES = (*("infra", "worker", "storage", "gone") * 4, "", " ")
KEY, OTHER_KEY, IV = b"k" * 32, b"o" * 16, b"i" * 16
UNREADABLE = ("abc", "AAAAAAAAAAAAAAAAAAAAAA==", "=", "iNDlXwtOzT/u14R+pUAQtQ=")
"""What follows `$ocm_encrypted:` and was not encrypted. Nothing that is no full block: it ends upstream's process."""


def _object(api_version: str, kind: str, name: str, namespace: str = "", **more: Any) -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if "labels" in more:
        metadata["labels"] = more.pop("labels")
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def cluster(seed: int) -> list[Object]:
    """The objects of a cluster; odd values depend on the seed."""
    chosen = random.Random(seed)
    words = [word for word in WORDS if word and "\x00" not in word]
    settings = {
        "color": "blue", "size": "7", "enabled": "true", "list": "[10.0.0.1, 10.0.0.2]", "map": '{"a":"b"}', "text": "one\ntwo\n",
        "day": "2024-02-29",
    }  # fmt: skip
    odd = {f"k{number}": chosen.choice(words) for number in range(4)}
    secrets = {f"s{number}": _base64(chosen.choice(words)) for number in range(1)}
    return [
        _object("v1", "ConfigMap", "settings", "shop", data={**settings, **odd}),
        _object("v1", "ConfigMap", "odd", "shop", data={**odd, "color": chosen.choice(words)}),
        _object("v1", "ConfigMap", "settings", "back", data={"color": "red"}),
        _object("v1", "ConfigMap", "bare", "shop"),
        *(
            _object("v1", "ConfigMap", f"zone-{zone}", "shop", labels={"tier": "web", "zone": zone}, data={"color": zone * 3})
            for zone in "ab"
        ),
        _object("v1", "Secret", "creds", "shop", data={"user": _base64("alice"), "pass": _base64("s3cr3t"), **secrets}),
        _object("v1", "Secret", "tls", "shop", data={"tls.crt": _base64("CERT")}, labels={"tier": "web"}),
        _object("v1", "Secret", "empty", "shop"),
        _object("v1", "Node", "n1", labels={"node-role.kubernetes.io/infra": ""}, status={"pods": 110, "load": 0.5}),
        _object("v1", "Node", "n2", labels={"node-role.kubernetes.io/infra": "", "node-role.kubernetes.io/worker": ""}),
        _object("v1", "Node", "n3", labels={"node-role.kubernetes.io/infra": "", "node-role.kubernetes.io/storage": ""}),
        _object("apps/v1", "Deployment", "web", "shop", spec={"replicas": 3, "paused": False, "tolerations": [{"key": "a"}, {}]}),
        _object(CLAIMS, "ClusterClaim", "region", spec={"value": chosen.choice(("eu", "us-east-1"))}),
        _object(CLAIMS, "ClusterClaim", "odd", spec={"value": chosen.choice(words)}),
    ]


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@dataclass
class PolicyCase:
    raw: str
    is_yaml: bool = False
    hub: bool = False
    indentation: int = 0
    strings: dict[str, str] = field(default_factory=dict)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    objects: dict[str, Object] = field(default_factory=dict)
    empty_context: bool = False
    namespace: str = ""
    allow: list[list[str]] = field(default_factory=list)
    deny: list[str] = field(default_factory=list)
    encrypt: bool = False
    decrypt: bool = False
    key: bytes = KEY
    fallback_key: bytes = b""
    iv: bytes = IV

    def question(self) -> dict[str, Any]:
        asked: dict[str, Any] = {
            "raw": self.raw, "yaml": self.is_yaml, "indentation": self.indentation, "strings": self.strings, "labels": self.labels,
            "contextObjects": self.objects, "namespace": self.namespace, "allow": self.allow, "deny": self.deny,
            "encrypt": self.encrypt, "decrypt": self.decrypt, "emptyContext": self.empty_context,
        }  # fmt: skip
        if self.encrypt or self.decrypt:
            keys = {"key": self.key, "fallbackKey": self.fallback_key, "iv": self.iv}
            asked |= {name: base64.b64encode(value).decode() for name, value in keys.items() if value}
        return asked | ({"start": "{{hub", "stop": "hub}}"} if self.hub else {})


class _Grammar(Grammar):
    """Expressions over the fields that policies have."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.use(Vocabulary({**BUILTINS, **SPRIG}, voc.SHAPES))
        self.dots: tuple[str, ...] = (".",)
        self.fields = {}

    def any_field(self) -> str:
        return self.random.choice(self.dots)


class Policies:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._grammar = _Grammar(seed + 1)
        self._documents = Documents(seed + 2)
        self._case = PolicyCase("")

    # Cases

    def case(self) -> PolicyCase:
        chosen = self.random
        case = self._case = PolicyCase("", hub=chosen.random() < 0.3, is_yaml=chosen.random() < 0.25)
        self._grammar.left, self._grammar.right = ("{{hub", "hub}}") if case.hub else ("{{", "}}")
        self._context(case)
        if chosen.random() < 0.12:
            case.namespace = chosen.choice(("shop", "back"))
            case.allow = chosen.choice(
                ([], [["*", "*", "*"]], [["", "Node", "*"]], [["", "Node", "n1"]], [["*", "ClusterClaim", "region"]])
            )
        if chosen.random() < 0.05:
            case.deny = chosen.sample(("upper", "lookup", "fromSecret", "now", "toInt", "default", "indent"), 2)
        if chosen.random() < 0.15:
            case.encrypt, case.decrypt = chosen.choice(((True, False), (False, True), (True, True)))
            case.fallback_key = chosen.choice((b"", OTHER_KEY))
            if chosen.random() < 0.1:
                case.key, case.iv = chosen.choice(((b"", IV), (b"short", IV), (KEY, b""), (KEY, b"short"), (OTHER_KEY, IV)))
        if chosen.random() < 0.06:
            case.indentation = chosen.choice((2, 4))
        self._grammar.variables = []
        if case.is_yaml:
            case.raw = self._yaml()
        else:
            case.raw = json.dumps(self._document(), ensure_ascii=False, separators=(",", ":"))
        return case

    def _context(self, case: PolicyCase) -> None:
        chosen = self.random
        dots = ["."]
        if case.hub and chosen.random() < 0.8:
            case.strings["ManagedClusterName"] = chosen.choice(("c1", "cluster-2"))
            case.labels["ManagedClusterLabels"] = {"env": chosen.choice(("prod", "true", "12")), "region": "eu"}
            dots = [".ManagedClusterName", ".ManagedClusterLabels.env", ".ManagedClusterLabels", ".ManagedClusterLabels.gone"]
        elif not case.hub and chosen.random() < 0.5:
            case.strings |= {"ObjectName": "web", "ObjectNamespace": chosen.choice(("shop", "back"))}
            case.objects["Object"] = _object(
                "apps/v1", "Deployment", "web", "shop", spec={"replicas": 3, "ratio": 0.5, "args": ["a", 1]}
            )
            dots = [
                ".ObjectName",
                ".ObjectNamespace",
                ".Object.spec.replicas",
                ".Object.metadata",
                ".Object.spec.args",
                ".Object.gone",
            ]
        case.empty_context = not case.strings and chosen.random() < 0.5
        self._grammar.dots = tuple(dots)

    # Documents

    def _document(self, depth: int = 0) -> Any:
        chosen = self.random
        roll = chosen.random() + depth * 0.15
        if depth == 0 or roll < 0.35:
            keys = chosen.sample(
                ("a", "b", "c", "data", "kind", "metadata", "name", "spec", "x1", "x10", "x2", "Z"), chosen.randint(1, 4)
            )
            made = {key: self._document(depth + 1) for key in keys}
            if chosen.random() < 0.03:
                made[self._action()] = "v"
            return made
        if roll < 0.5:
            return [self._document(depth + 1) for _ in range(chosen.randint(0, 3))]
        if roll < 0.6:
            return chosen.choice((0, 1, 7, -2, 1.5, True, False, None, 2**53 + 1))
        if self._case.decrypt and chosen.random() < 0.3:
            return self._encrypted()
        return self._text() if chosen.random() < 0.8 else self._documents.string()

    def _encrypted(self) -> str:
        chosen = self.random
        if chosen.random() < 0.1:
            return f"$ocm_encrypted:{chosen.choice(UNREADABLE)}"
        key = chosen.choice((KEY, KEY, OTHER_KEY))
        return protect(Encryption(key=key, initialization_vector=IV), chosen.choice((*WORDS, "{{ .ObjectName }}")))

    def _text(self) -> str:
        """A string with actions: alone, among text, several, or over lines."""
        chosen = self.random
        roll = chosen.random()
        if roll < 0.5:
            return self._action()
        if roll < 0.6:
            return chosen.choice(("x ", "1", "pre-", "'", '"', "- ", "# ", "é")) + self._action()
        if roll < 0.7:
            return self._action() + chosen.choice((" y", "px", "-post", ":", "'", "\n", " # c"))
        if roll < 0.78:
            return self._action() + chosen.choice(("", " ", "-", "\n")) + self._action()
        if roll < 0.86:
            return chosen.choice(("line\n", "")) + self._action() + chosen.choice(("\n", "\nmore\n", "\n\n"))
        if roll < 0.93:
            return (
                self._grammar.delimited(f"if {self._condition()}") + chosen.choice(("a", "1", self._action())) + self._otherwise()
            )
        left, right = self._grammar.left, self._grammar.right
        body = self._grammar.delimited(self._item()) + chosen.choice((",", " ", ""))
        return f"{left} range {self._ranged()} {right}{body}{left} end {right}"

    def _otherwise(self) -> str:
        middle = self._grammar.delimited("else") + self.random.choice(("b", "2", "")) if self.random.random() < 0.5 else ""
        return middle + self._grammar.delimited("end")

    def _yaml(self) -> str:
        chosen = self.random
        left, right = self._grammar.left, self._grammar.right
        if chosen.random() < 0.3:
            body = f"- name: {self._grammar.delimited(self._item())}\n  kind: {self._action()}\n"
            trim = chosen.choice(("- ", " "))
            return f"{left}{trim}range {self._ranged()} {right}\n{body}{left}{trim}end {right}\n"
        lines = []
        for number in range(chosen.randint(1, 4)):
            start = chosen.choice(("", "", "", "- ", "  ")) + f"k{number}: "
            quote = chosen.choice(("", "", "'", '"'))
            block = chosen.choice(("", "", "", "|\n    ", ">-\n    "))
            lines.append(start + block + (self._text() if block else quote + self._action() + quote))
        return "\n".join(lines) + "\n"

    # Actions

    def _action(self) -> str:
        chosen = self.random
        if chosen.random() < 0.06:
            return self._grammar.declaration()
        parts = [self._source()]
        filters = chosen.choice((0, 0, 0, 0, 1, 1, 2, 3))
        if filters and chosen.random() < 0.6:
            parts.append("toString")
        parts += [self._filter() for _ in range(filters)]
        if chosen.random() < 0.12:
            parts.append("protect" if self._case.encrypt else "autoindent")
        return self._grammar.delimited(" | ".join(parts))

    def _quoted(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=False)

    def _reading(self, kind: str, keys: tuple[str, ...] = ()) -> str:
        chosen = self.random
        parts = [chosen.choice(NAMESPACES), chosen.choice(NAMES[kind])]
        if keys:
            parts.append(chosen.choice(keys))
        return " ".join(self._quoted(part) for part in parts)

    def _source(self) -> str:
        chosen = self.random
        roll = chosen.random()
        if roll < 0.2:
            return f"fromConfigMap {self._reading('ConfigMap', DATA_KEYS)}"
        if roll < 0.27:
            return f"fromSecret {self._reading('Secret', SECRET_KEYS)}"
        if roll < 0.33:
            return f"copyConfigMapData {self._reading('ConfigMap')}"
        if roll < 0.37:
            return f"copySecretData {self._reading('Secret')}"
        if roll < 0.41:
            return (
                chosen.choice(("fromClusterClaim", "lookupClusterClaim"))
                + " "
                + chosen.choice((*('"region"', '"odd"') * 6, '"gone"', '""'))
            )
        if roll < 0.5:
            return self._lookup() + chosen.choice(
                ("", ".metadata.name", ".data.color", ".data", ".kind", ".spec.replicas", ".gone.deep")
            )
        if roll < 0.53:
            roles = " ".join(self._quoted(chosen.choice(ROLES)) for _ in range(chosen.choice((0, 1, 1, 1, 1, 2))))
            return f"{chosen.choice(('hasNodesWithExactRoles', 'getNodesWithExactRoles'))} {roles}"
        if roll < 0.65:
            return self._quoted(chosen.choice(WORDS))
        if roll < 0.72:
            return chosen.choice(("1", "until 3", "list 1 2", 'dict "a" 1', "true", '"$ocm_encrypted:iNDlXwtOzT/u14R+pUAQtQ=="'))
        if roll < 0.85:
            return self._grammar.any_field()
        return self._grammar.pipeline(1)

    def _lookup(self) -> str:
        chosen = self.random
        if chosen.random() < 0.1:
            odd = (("v1", "Widget"), ("", "ConfigMap"), ("v1", ""), ("a/b/c", "ConfigMap"))
            (api_version, kind), name = chosen.choice(odd), "x"
        else:
            api_version, kind, names = chosen.choice(
                (
                    ("v1", "ConfigMap", NAMES["ConfigMap"]), ("v1", "Secret", NAMES["Secret"]),
                    ("v1", "Node", ("n1", "n2", "gone")), ("apps/v1", "Deployment", ("web",)), ("v1", "Pod", ("gone",)),
                    (CLAIMS, "ClusterClaim", ("region", "odd")),
                )
            )  # fmt: skip
            name = chosen.choice(names)
        text = f'(lookup "{api_version}" "{kind}" "{chosen.choice(NAMESPACES)}" "{name if chosen.random() < 0.8 else ""}"'
        if chosen.random() < 0.2:
            text += " " + " ".join(self._quoted(chosen.choice(SELECTORS)) for _ in range(chosen.randint(1, 2)))
        return text + ")"

    def _filter(self) -> str:
        chosen = self.random
        if chosen.random() < 0.12:
            return self._grammar.command(1, piped=True)
        return chosen.choice(
            (
                *("toLiteral", "toString", "quote", "squote", "upper", "trim", "toYAML", "toYaml", "toJSON", "toRawJson") * 3,
                *("toInt", "toBool", "base64enc", "base64dec", "b64dec", "fromYAML", "fromYaml", "fromJSON", 'default "d"') * 2,
                f"indent {chosen.randint(0, 6)}", f"nindent {chosen.randint(0, 6)}", "mustFromJSON", "atoi", "first", "len",
                'replace "a" "b"', 'splitList ","', "autoindent", "protect",
            )
        )  # fmt: skip

    def _condition(self) -> str:
        chosen = self.random
        return chosen.choice(
            (
                f"eq ({self._source()}) {self._quoted(chosen.choice(('blue', '7', 'eu')))}", self._source(),
                f"not ({self._source()})", "true", "hasNodesWithExactRoles \"infra\"",
            )
        )  # fmt: skip

    def _ranged(self) -> str:
        chosen = self.random
        return chosen.choice(
            (
                '(lookup "v1" "ConfigMap" "shop" "" "tier=web").items', '(lookup "v1" "Secret" "shop" "").items',
                '(getNodesWithExactRoles "infra").items', "until 3", f"{self._lookup()}.items", self._grammar.any_field(),
                'list "a" "b: c"',
            )
        )  # fmt: skip

    def _item(self) -> str:
        return self.random.choice(
            (".metadata.name", ".", ".data.color", ".data | toYAML | autoindent", ".metadata | toJSON", ".status.pods")
        )
