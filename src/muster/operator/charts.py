"""The generated part of the Helm charts in `deploy/charts`: the CRD, and an operator's objects with placeholders for values.

The rest of the charts is written by hand there. `python -m muster.operator.bundle deploy` generates this part from the same
documents that `clusteradm` applies, so that the methods of installation cannot diverge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from muster.api import Document
from muster.kube import yaml

NAMESPACE: Final = "__namespace__"
"""The placeholder for an operator's namespace."""
_EXPRESSIONS: Final = {
    "namespace": "{{ .Release.Namespace }}",
    "replicas": "{{ .Values.replicaCount }}",
    "image": '{{ include "operator.image" . }}',
    "pull_policy": "{{ .Values.images.imagePullPolicy }}",
}
_BLOCKS: Final = ("resources", "nodeSelector", "tolerations", "affinity")
_BLOCK: Final = re.compile(r"^( *)(\w+): __block__$", re.MULTILINE)
_MARK: Final = re.compile(r"__(\w+?)__")


def chart_files(name: str, documents: Iterable[Document], bootstrap: Iterable[Document] = ()) -> dict[str, str]:
    """By path below `deploy/`; the documents have apiVersion and kind, and use NAMESPACE for the operator's namespace."""
    ref, documents, bootstrap = f"charts/{name}", list(documents), list(bootstrap)
    definitions = [one for one in documents if one["kind"] == "CustomResourceDefinition"]
    made = {f"{ref}/crds/{definition['spec']['names']['plural']}.yaml": yaml.dump(definition) for definition in definitions}
    others = [with_values(document) for document in documents if document not in definitions]
    made[f"{ref}/templates/operator.yaml"] = template(others, "not .Values.noOperator")
    if bootstrap:
        made[f"{ref}/templates/bootstrap.yaml"] = template(bootstrap, ".Values.createBootstrapSA")
    return made


def with_values(document: Document) -> Document:
    """A Deployment with placeholders for the values of a chart; other documents are unchanged."""
    if document["kind"] != "Deployment":
        return document
    spec: dict[str, Any] = document["spec"]
    pod: dict[str, Any] = spec["template"]["spec"]
    (container,) = pod["containers"]
    chosen = {"image": "__image__", "imagePullPolicy": "__pull_policy__", "resources": "__block__"}
    placed = {key: "__block__" for key in _BLOCKS if key != "resources"}
    pod = {**pod, **placed, "containers": [{**container, **chosen}]}
    return {**document, "spec": {**spec, "replicas": "__replicas__", "template": {**spec["template"], "spec": pod}}}


def template(documents: Iterable[Document], condition: str) -> str:
    """YAML with Helm's expressions in place of placeholders, under a condition. Empty blocks are left out."""
    text = _BLOCK.sub(_block, yaml.dump_all(documents))
    return f"{{{{- if {condition} }}}}\n{_MARK.sub(lambda mark: _EXPRESSIONS[mark[1]], text)}{{{{- end }}}}\n"


def _block(line: re.Match[str]) -> str:
    indent, key = line[1], line[2]
    return (
        f"{indent}{{{{- with .Values.{key} }}}}\n{indent}{key}:\n"
        f"{indent}  {{{{- toYaml . | nindent {len(indent) + 2} }}}}\n{indent}{{{{- end }}}}"
    )
