"""Conversion of parsed JSON to the form of a built-in type: kube-apiserver decodes it into Go structs and encodes these again, and
clients see the result.

So unknown fields vanish, `null` means unset, zero values of `omitempty` fields disappear, fields without it always appear (`status:
{}`, `rules: null`, also for an empty list, which storage does not distinguish from none), quantities, times and base64 get their
canonical form, and wrong types are rejected. Each type is compiled once to a closure that works in place and allocates only if
something changes. The closures stop at the first unknown field or wrong type with an exception without details; `strict` then
determines path and message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from muster.machinery.golang.quantities import WRONG_FORMAT

from . import scalars
from .errors import DecodeError
from .layouts import Field, TypeExpr, layout

Converter = Callable[[Any], Any]


class UnknownField(Exception):
    """A struct has a key that its type does not have."""


class WrongType(Exception):
    """A value has a wrong type."""


def _string(value: Any) -> str:
    if type(value) is str:
        return value
    if value is None:
        return ""
    raise WrongType


def _bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    if value is None:
        return False
    raise WrongType


def _integer(bits: int) -> Converter:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def convert(value: Any) -> int:
        if type(value) is int and low <= value <= high:
            return value
        if value is None:
            return 0
        raise WrongType

    return convert


def _float(value: Any) -> float:
    if type(value) is float or type(value) is int:
        return value
    if value is None:
        return 0
    raise WrongType


def _bytes(value: Any) -> str | None:
    if type(value) is str:
        return scalars.base64_text(value)
    if value is None:
        return None
    raise WrongType


def _text_or_null(parse: Callable[[str], str | None]) -> Converter:
    def convert(value: Any) -> str | None:
        if type(value) is str:
            return parse(value)
        if value is None:
            return None
        raise WrongType

    return convert


def _duration(value: Any) -> str:
    if type(value) is str:
        return scalars.duration_text(value)
    if value is None:
        return "0s"
    raise WrongType


def number_text(value: int | float) -> str:
    """A JSON number as text for the quantity parser: without a trailing `.0`."""
    text = repr(value)
    return text.removesuffix(".0")


def _quantity(value: Any) -> str:
    if type(value) is str:
        return scalars.quantity_text(value)
    if value is None:
        return "0"
    if type(value) is int or type(value) is float:
        return scalars.quantity_text(number_text(value))
    raise DecodeError(WRONG_FORMAT)


def _int_or_string(value: Any) -> int | str:
    if type(value) is str or (type(value) is int and -(1 << 31) <= value < 1 << 31):
        return value
    if value is None:
        return 0
    raise WrongType


def _anything(value: Any) -> Any:
    return value


def _strings(value: Any) -> Any:
    if value is None:
        return None
    if type(value) is not list:
        raise WrongType
    for index, item in enumerate(value):
        if type(item) is not str:
            value[index] = _string(item)
    return value


def _string_list(value: Any) -> Any:
    return _strings(value) or None


_PROPS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


def _props_or_array(value: Any) -> Any:
    if type(value) is list:
        return [struct(_PROPS)(item) for item in value]
    return None if value is None else struct(_PROPS)(value)


def _props_or_bool(value: Any) -> Any:
    if type(value) is bool:
        return value
    return False if value is None else struct(_PROPS)(value)


def _props_or_strings(value: Any) -> Any:
    if type(value) is list:
        return _strings(value)
    return None if value is None else struct(_PROPS)(value)


_SPECIAL: dict[str, Converter] = {
    "Time": _text_or_null(scalars.time_text),
    "MicroTime": _text_or_null(scalars.micro_time_text),
    "Duration": _duration,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "RawExtension": _anything,
    "FieldsV1": _anything,
    "JSON": _anything,
    "ExtraValue": _strings,
    "Verbs": _strings,
    "JSONSchemaPropsOrArray": _props_or_array,
    "JSONSchemaPropsOrBool": _props_or_bool,
    "JSONSchemaPropsOrStringArray": _props_or_strings,
}
_SCALAR: dict[str, Converter] = {
    "string": _string,
    "bool": _bool,
    "int": _integer(64),
    "int32": _integer(32),
    "int64": _integer(64),
    "float64": _float,
    "bytes": _bytes,
}
_SLICES = frozenset({"ExtraValue", "Verbs"})


_JSON_ENCODED_TYPES = "io.k8s.apiextensions-apiserver."
"""Prefix of types that are never stored as protobuf, which does not distinguish an empty list from none."""


def _list(convert: Converter, keep_empty: bool) -> Converter:
    def convert_list(value: Any) -> Any:
        if type(value) is not list:
            if value is None:
                return None
            raise WrongType
        if not value:
            return value if keep_empty else None
        for index, item in enumerate(value):
            made = convert(item)
            if made is not item:
                value[index] = made
        return value

    return convert_list


def _map(convert: Converter) -> Converter:
    def convert_map(value: Any) -> Any:
        if type(value) is not dict:
            if value is None:
                return None
            raise WrongType
        for key, item in value.items():
            made = convert(item)
            if made is not item:
                value[key] = made
        return value

    return convert_map


def _string_map(value: Any) -> Any:
    if type(value) is not dict:
        if value is None:
            return None
        raise WrongType
    for key, item in value.items():
        if type(item) is not str:
            value[key] = _string(item)
    return value


def converter(expr: TypeExpr) -> Converter:
    """The closure for a field type. Structs are resolved on first use, because types may be recursive."""
    if expr.kind == "struct":
        return _lazy(expr.name)
    if expr.kind == "special":
        return _SPECIAL[expr.name.rsplit(".", 1)[-1]]
    if expr.item is not None:
        if expr.kind == "list":
            if expr.item.kind == "string":
                return _string_list
            return _list(converter(expr.item), keep_empty=expr.item.name.startswith(_JSON_ENCODED_TYPES))
        return _string_map if expr.item.kind == "string" else _map(converter(expr.item))
    return _SCALAR[expr.kind]


def _lazy(name: str) -> Converter:
    target: Converter | None = None

    def convert(value: Any) -> Any:
        nonlocal target
        if target is None:
            target = struct(name)
        return target(value)

    return convert


def _drops(field: Field) -> int:
    """0: always shown; 1: hidden when unset (null); 2: hidden when empty."""
    special = field.type.name.rsplit(".", 1)[-1] if field.type.kind == "special" else ""
    if field.omit_zero:
        return 1
    if not field.omit_empty:
        return 0
    if field.pointer:
        return 1
    if field.type.kind == "struct" or (special and special not in _SLICES):
        return 0
    return 2


@cache
def struct(name: str) -> Converter:
    """The closure for a struct type by definition name."""
    fields: dict[str, tuple[bool, Converter, int]] = {}
    always: list[tuple[str, Converter | None]] = []
    for key, field in layout(name).json_fields.items():
        plain = converter(field.type)
        drops = _drops(field)
        convert = _nullable(plain) if field.pointer else plain
        fields[key] = (field.type.kind == "string", convert, drops)
        if drops == 0:
            always.append((key, _zero(plain) if field.type.kind == "struct" and not field.pointer else convert))
    get = fields.get

    def convert_struct(value: Any) -> Any:
        if type(value) is not dict:
            if value is None:
                value = {}
            else:
                raise WrongType
        hidden: list[str] | None = None
        for key, item in value.items():
            entry = get(key)
            if entry is None:
                raise UnknownField
            is_string, convert, drops = entry
            if is_string and item.__class__ is str:
                made = item
            else:
                made = convert(item)
                if made is not item:
                    value[key] = made
            if drops and (made is None or (drops == 2 and not made)):
                if hidden is None:
                    hidden = [key]
                else:
                    hidden.append(key)
        if hidden is not None:
            for key in hidden:
                del value[key]
        for key, zero in always:
            if key not in value:
                value[key] = None if zero is None else zero(None)
        return value

    return convert_struct


def _zero(plain: Converter) -> Converter:
    """A function that creates the value of an absent struct; for most types it is empty."""
    is_empty = False

    def zero(_: Any) -> Any:
        nonlocal is_empty
        if is_empty:
            return {}
        made = plain({})
        is_empty = not made
        return made

    return zero


def _nullable(convert: Converter) -> Converter:
    def convert_pointer(value: Any) -> Any:
        return None if value is None else convert(value)

    return convert_pointer
