"""Struct layouts of the API types, read from their Go sources: JSON names, protobuf numbers, pointers, `omitempty`, inlining.

gofmt'ed API sources are regular enough for a line reader: a struct is `type X struct {` … `}` at the margin, one field per line.
Types are named like their OpenAPI definitions. The result is two tables: `types` maps a name to its fields in declaration order,
and `exprs` lists the distinct field types, which fields refer to by index:

    ["string"|"bool"|"int32"|…, go name]      a scalar (with the Go name errors show, e.g. "v1.RestartPolicy")
    ["list", item, go name]  ["map", item, go name]
    ["struct", type name]    ["special", type name]   special types carry their own JSON and protobuf form

A field is [json name, protobuf number, expr, flags]; flags: 1 pointer, 2 omitempty, 4 omitzero, 8 inline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

POINTER, OMIT_EMPTY, OMIT_ZERO, INLINE = 1, 2, 4, 8

_SCALARS = {"string", "bool", "int", "int32", "int64", "uint32", "uint64", "float32", "float64", "byte", "uint8"}
_SPECIAL = {
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Duration",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Verbs",
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
    "io.k8s.api.authentication.v1.ExtraValue",
    "io.k8s.api.authorization.v1.ExtraValue",
    "io.k8s.api.certificates.v1.ExtraValue",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
}
_TYPE = re.compile(r"^type (\w+) (=? ?)(.+?)(?: \{)?$")
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([\w.*\[\]]+)\s+`(.*)`")
_TAG = re.compile(r'(\w+):"([^"]*)"')
_IMPORT = re.compile(r'^\s*(?:import )?(?:(\w+) )?"([\w./-]+)"$')
_NUMBER = re.compile(r"^\w+,(\d+)")


def definition_prefix(package: str) -> str:
    """`k8s.io/api/core/v1` → `io.k8s.api.core.v1`."""
    host, _, rest = package.partition("/")
    return ".".join([*reversed(host.split(".")), *rest.split("/")])


@dataclass
class _Package:
    path: str
    structs: dict[str, list[tuple[str, str, dict[str, str]]]] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)


def _read_package(path: str, directory: Path) -> _Package:
    package = _Package(path)
    for source in sorted(directory.glob("*.go")):
        if source.name.endswith("_test.go") or "generated" in source.name:
            continue
        inside = ""
        for line in source.read_text().splitlines():
            if inside:
                if line == "}":
                    inside = ""
                elif found := _FIELD.match(line):
                    package.structs[inside].append((found[1] or "", found[2], dict(_TAG.findall(found[3]))))
                continue
            if line.startswith("type ") and (found := _TYPE.match(line)):
                name, kind = found[1], found[3]
                if kind == "struct":
                    inside = name
                    package.structs[name] = []
                elif kind == "struct{}":
                    package.structs[name] = []
                elif kind != "interface" and not kind.startswith("func"):
                    package.named[name] = kind.strip()
            elif found := _IMPORT.match(line):
                package.imports[found[1] or found[2].rsplit("/", 1)[-1]] = found[2]
    return package


class Reader:
    """Follows types from the roots through their packages; `modules` maps a module path to its source directory."""

    def __init__(self, modules: dict[str, Path]) -> None:
        self._modules = modules
        self._packages: dict[str, _Package] = {}
        self._expr_index: dict[str, int] = {}
        self.exprs: list[list[Any]] = []
        self.types: dict[str, list[list[Any]]] = {}

    def package(self, path: str) -> _Package:
        if path not in self._packages:
            module = max((m for m in self._modules if path == m or path.startswith(m + "/")), key=len)
            self._packages[path] = _read_package(path, self._modules[module] / path.removeprefix(module).lstrip("/"))
        return self._packages[path]

    def add(self, path: str, name: str) -> None:
        """Record one struct and everything it refers to."""
        full = f"{definition_prefix(path)}.{name}"
        if full in self.types:
            return
        package = self.package(path)
        fields = self.types[full] = []
        for go_name, go_type, tags in package.structs[name]:
            json_name, *options = tags.get("json", "").split(",")
            if json_name == "-":
                continue
            inline = "inline" in options or (not go_name and not json_name)
            if inline and go_type.endswith("TypeMeta"):
                fields += [
                    ["kind", 0, self._intern(["string", "string"]), OMIT_EMPTY],
                    ["apiVersion", 0, self._intern(["string", "string"]), OMIT_EMPTY],
                ]
                continue
            number = _NUMBER.match(tags.get("protobuf", ""))
            flags = POINTER * go_type.startswith("*") | OMIT_EMPTY * ("omitempty" in options) | OMIT_ZERO * ("omitzero" in options)
            flags |= INLINE * inline
            fields.append(
                [json_name or go_name, int(number[1]) if number else 0, self._expr(package, go_type.removeprefix("*")), flags]
            )

    def _expr(self, package: _Package, go_type: str) -> int:
        if go_type == "[]byte":
            return self._intern(["bytes", "[]uint8"])
        if go_type.startswith("[]"):
            return self._intern(["list", self._expr(package, go_type[2:].removeprefix("*")), ""])
        if go_type.startswith("map["):
            return self._intern(["map", self._expr(package, go_type.partition("]")[2]), ""])
        if go_type in _SCALARS:
            return self._intern([go_type, go_type])
        alias, _, name = go_type.rpartition(".")
        target = self.package(package.imports[alias]) if alias else package
        return self._named(target, name)

    def _named(self, package: _Package, name: str) -> int:
        full = f"{definition_prefix(package.path)}.{name}"
        if full in _SPECIAL:
            if name.startswith("JSONSchemaPropsOr"):
                self.add(package.path, "JSONSchemaProps")
            return self._intern(["special", full])
        if name in package.structs:
            self.add(package.path, name)
            return self._intern(["struct", full])
        underlying = self.exprs[self._expr(package, package.named[name])]
        go_name = f"{package.path.rsplit('/', 1)[-1]}.{name}"
        return self._intern([*underlying[:-1], go_name] if underlying[0] not in ("struct", "special") else underlying)

    def _intern(self, expr: list[Any]) -> int:
        key = repr(expr)
        if key not in self._expr_index:
            self._expr_index[key] = len(self.exprs)
            self.exprs.append(expr)
        return self._expr_index[key]
