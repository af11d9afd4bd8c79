"""The vectors of the policy fact sheet: all plain template ones, and the engine's part of the resolver ones.

A resolver vector's input is JSON; upstream turns it into YAML, renders that, and reads it back. Here only the rendering
is ours, so each vector's template text is rendered with the functions of the vectors' fixtures, and the text that upstream
would put between the quotes is compared. Vectors about quoting and YAML typing belong to the resolver.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.gotemplate import GoError, Template, TemplateError
from muster.gotemplate.values import Map, Struct

VECTORS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("policy_vectors.json").read_text())
CONFIG_MAPS: dict[str, dict[str, str] | None] = {
    "settings": {
        "color": "blue", "size": "7", "enabled": "true", "cidrs": "[10.0.0.1, 10.0.0.2]", "text": "one\ntwo\n",
        "yesno": "yes", "day": "2024-02-29", "kv": "a: b", "note": "a # b",
    },
    "bare": None,
    "zone-a": {"color": "red"},
    "zone-b": {"color": "green"},
    "zone-c": {"color": "grey"},
}  # fmt: skip
SECRETS = {"creds": {"user": "alice", "pass": "s3cr3t"}, "edge-tls": {"tls.crt": "CERT", "tls.key": "KEY"}}


def encoded(secret: dict[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in secret.items()}


def from_secret(namespace: str, name: str, key: str) -> str:
    if name not in SECRETS:
        raise GoError(f'failed to get the secret {name} from {namespace}: secrets "{name}" not found')
    return encoded(SECRETS[name]).get(key, "")


def from_config_map(namespace: str, name: str, key: str) -> str:
    if name not in CONFIG_MAPS:
        raise GoError(f'failed getting the ConfigMap {name} from {namespace}: configmaps "{name}" not found')
    return (CONFIG_MAPS[name] or {}).get(key, "")


def copy_config_map_data(_namespace: str, name: str) -> str:
    return json.dumps(CONFIG_MAPS[name], sort_keys=True, separators=(",", ":"))


def copy_secret_data(_namespace: str, name: str) -> str:
    return json.dumps(encoded(SECRETS[name]), sort_keys=True, separators=(",", ":"))


def lookup(_version: str, kind: str, _namespace: str, name: str, *_selectors: str) -> dict[str, Any] | None:
    if kind == "Widget":
        raise GoError("one or more API resources are not installed on the API server")
    if kind == "Node":
        return {"kind": "Node", "metadata": {"name": name}}
    if name:
        found = CONFIG_MAPS.get(name)
        return None if found is None else {"metadata": {"name": name}, "data": found}
    return {"items": [{"metadata": {"name": item}} for item in CONFIG_MAPS if item.startswith("zone-")]}


def to_literal(text: str) -> str:
    if "\n" in text:
        raise GoError("new lines are not allowed in the string passed to the toLiteral function")
    return text


def from_cluster_claim(name: str) -> str:
    raise GoError(f'clusterclaims.cluster.open-cluster-management.io "{name}" not found')


def protect(_text: str) -> str:
    raise GoError("the protect template function is not enabled in this mode")


def autoindent(_text: str) -> str:
    raise GoError("an unexpected error occurred where autoindent could not be processed")


def to_bool(text: str) -> bool:
    return text == "true"


def to_int(value: Any) -> int:
    return int(value)


FUNCS: dict[str, Callable[..., Any]] = {
    "fromSecret": from_secret, "fromConfigMap": from_config_map, "copyConfigMapData": copy_config_map_data,
    "copySecretData": copy_secret_data, "lookup": lookup, "toLiteral": to_literal, "fromClusterClaim": from_cluster_claim,
    "protect": protect, "autoindent": autoindent, "toBool": to_bool, "toInt": to_int,
    "base64enc": lambda text: base64.b64encode(text.encode()).decode(),
    "base64dec": lambda text: base64.b64decode(text).decode(),
}  # fmt: skip


def floats(value: Any) -> Any:
    """Go decodes every JSON number as float64."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return float(value)
    if isinstance(value, list):
        return [floats(item) for item in value]
    return {key: floats(item) for key, item in value.items()} if isinstance(value, dict) else value


PLAIN = [vector for vector in VECTORS if vector["mode"] == "go"]


def test_all_plain_vectors_are_here() -> None:
    assert len(PLAIN) == 30


@pytest.mark.parametrize("vector", PLAIN, ids=lambda vector: vector["id"])
def test_a_plain_vector_gives_its_output_and_error(vector: dict[str, Any]) -> None:
    delims = vector.get("left", ""), vector.get("right", "")
    try:
        output, error = Template(vector["tmpl"], delims=delims, sprig=False).render(floats(vector["ctx"])), None
    except TemplateError as failure:
        output, error = "", str(failure)
    assert (output, error) == (vector["expect"], vector.get("error"))


# What upstream puts between the quotes of the YAML: the engine's part of each resolver vector that has one value.
RESOLVED: dict[str, str] = {
    "R01": "YWxpY2U=", "R02": "", "R07": "", "R09": "[10.0.0.1, 10.0.0.2]", "R12": "true", "R13": "yes",
    "R14": "2024-02-29", "R15": "a: b", "R16": "a # b", "R27": "red", "R28": "<no value>", "R29": "map[]",
    "R30": "zone-a;zone-b;zone-c;", "R33": "n1", "R38": '{"tls.crt":"Q0VSVA==","tls.key":"S0VZ"}',
    "R39": '{"color":"red"}', "R40": "null", "R49": '{{ "s" | upper }}', "R50": "S", "R51": '{{ "S" | lower }}',
    "R53": "prod", "R54": "<no value>", "R55": "", "R62": "Node", "R71": "6px", "R73": "it's", "R74": "12", "R75": "true",
    "R78": "it's", "R79": "x a\nb",
}  # fmt: skip
FAILING = [vector for vector in VECTORS if vector["mode"] == "json" and "executing" in vector.get("error", "")]
BY_ID = {vector["id"]: vector for vector in VECTORS}


def only_template(vector: dict[str, Any]) -> str:
    """The one string value of the vector's JSON."""
    (value,) = json.loads(vector["tmpl"]).values()
    return str(value)


def context(vector: dict[str, Any]) -> Struct:
    fields = {
        name: Map(value, "map[string]string") if isinstance(value, dict) else value for name, value in vector.get("ctx", {}).items()
    }
    return Struct(fields)


def render(vector: dict[str, Any]) -> str:
    delims = ("{{hub", "hub}}") if vector.get("hub") else ("{{", "}}")
    funcs = dict(FUNCS)
    for name in vector.get("deny", []):
        funcs[name] = denied(name)
    return Template(only_template(vector), delims=delims, funcs=funcs).render(context(vector))


def denied(name: str) -> Callable[..., Any]:
    def refuse(*_args: Any) -> Any:
        raise GoError(f"use of denylisted template function: function '{name}' is not allowed")

    return refuse


@pytest.mark.parametrize("name", RESOLVED)
def test_a_resolver_vector_renders_the_text_that_upstream_reads_as_yaml(name: str) -> None:
    assert render(BY_ID[name]) == RESOLVED[name]


@pytest.mark.parametrize("vector", FAILING, ids=lambda vector: vector["id"])
def test_a_failing_resolver_vector_gives_upstreams_error(vector: dict[str, Any]) -> None:
    with pytest.raises(TemplateError) as failure:
        render(vector)
    # Columns differ by what upstream's YAML has before the value; the rest is the same.
    assert str(failure.value).partition(": executing ")[2] == vector["error"].partition(": executing ")[2]


def test_an_unknown_function_is_refused_when_parsed() -> None:
    with pytest.raises(TemplateError, match=r'template: tmpl:1: function "nosuch" not defined'):
        render(BY_ID["R44"])


def test_a_bad_base64_text_gives_the_error_as_the_value() -> None:
    text = only_template(BY_ID["R19"])
    assert Template(text, funcs=FUNCS).render() == "cGxhaW4gdGV4dA==|plain|illegal base64 data at input byte 0"


def test_object_templates_render_one_object_per_listed_item() -> None:
    output = Template(BY_ID["R66"]["tmpl"], funcs=FUNCS).render()
    assert [line.strip() for line in output.splitlines() if "name" in line] == [
        f"objectDefinition: {{metadata: {{name: zone-{zone}}}}}" for zone in "abc"
    ]
