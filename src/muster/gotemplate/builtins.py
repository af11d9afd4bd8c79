"""The functions of text/template itself: comparison, indexing, printing and escaping.

Parameters of type reflect.Value distinguish nil (None) and "no value" (MISSING), as in Go; the others get None for both. `and` and
`or` are not called: the compiler turns them into Python's operators.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_plus

from muster.gotemplate.golang import fmt
from muster.gotemplate.golang.printf import sprintf
from muster.gotemplate.limits import charge_size
from muster.gotemplate.signature import ANY, VALUE, Func, func
from muster.gotemplate.values import (
    INT_KINDS,
    MISSING,
    UINT_KINDS,
    Int64,
    Map,
    Slice,
    Uint8,
    go_type,
    is_interface_container,
    kind,
    pointed_type,
)
from muster.machinery.golang import unicode
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.text import byte_len, decode, encode

_BASIC = frozenset({str, int, bool, float})
_ORDERED = frozenset({str, int, float})
_BAD_COMPARISON = "invalid type for comparison"


def _basic_kind(value: Any) -> str:
    """The comparison group of the value, "" if it has none."""
    name = kind(value)
    if name in INT_KINDS:
        return "int"
    if name in UINT_KINDS:
        return "uint"
    if name in ("float64", "float32"):
        return "float"
    return name if name in ("bool", "string", "complex128") else ""


def _is_nil(value: Any) -> bool:
    return value is None or value is MISSING or (isinstance(value, (Slice, Map)) and value.is_nil)


def _valid(value: Any) -> bool:
    return value is not None and value is not MISSING


def _uncomparable_equal(left: Any, right: Any) -> bool:
    if _valid(left) and _valid(right) and kind(left) != kind(right):
        raise GoError(f"non-comparable types {sprintf('%s', [left])}: {go_type(left)}, {go_type(right)}: {fmt.show(right)}")
    if _is_nil(left) or _is_nil(right):
        return _is_nil(left) and _is_nil(right)
    if kind(right) in ("map", "slice", "func"):
        raise GoError(f"non-comparable type {sprintf('%s', [right])}: {go_type(right)}")
    return go_type(left) == go_type(right) and bool(left == right)


def _equal(left: Any, right: Any) -> bool:
    left_group, right_group = _basic_kind(left), _basic_kind(right)
    if left_group != right_group:
        if {left_group, right_group} == {"int", "uint"}:
            return int(left) == int(right)
        if _valid(left) and _valid(right):
            raise GoError(f"incompatible types for comparison: {go_type(left)} and {go_type(right)}")
        return False
    return bool(left == right) if left_group else _uncomparable_equal(left, right)


def eq(left: Any, *others: Any) -> bool:
    if not others:
        raise GoError("missing argument for comparison")
    cls = left.__class__
    if len(others) == 1 and cls in _BASIC and others[0].__class__ is cls:
        return bool(left == others[0])
    return any(_equal(left, other) for other in others)


def ne(left: Any, right: Any) -> bool:
    return not eq(left, right)


def lt(left: Any, right: Any) -> bool:
    cls = left.__class__
    if cls in _ORDERED and right.__class__ is cls:
        if cls is str and not (left.isascii() and right.isascii()):
            return encode(left) < encode(right)
        return bool(left < right)
    left_group, right_group = _basic_kind(left), _basic_kind(right)
    if not left_group or not right_group:
        raise GoError(_BAD_COMPARISON)
    if left_group != right_group and {left_group, right_group} != {"int", "uint"}:
        raise GoError(f"incompatible types for comparison: {go_type(left)} and {go_type(right)}")
    if left_group in ("bool", "complex128"):
        raise GoError(_BAD_COMPARISON)
    return bool(left < right)


def le(left: Any, right: Any) -> bool:
    return lt(left, right) or eq(left, right)


def gt(left: Any, right: Any) -> bool:
    return not le(left, right)


def ge(left: Any, right: Any) -> bool:
    return not lt(left, right)


def not_(value: Any) -> bool:
    return not value


# Containers


def length(value: Any) -> int:
    cls = value.__class__
    if cls is str:
        return byte_len(value)
    if isinstance(value, (list, dict, tuple, bytes)):
        return len(value)
    if value is None:
        raise GoError("len of nil pointer")
    if value is MISSING:
        raise GoError("reflect: call of reflect.Value.Type on zero Value")
    raise GoError(f"len of type {pointed_type(value)}")


def _index_arg(index: Any, capacity: int) -> int:
    if index.__class__ is not int and kind(index) not in INT_KINDS and kind(index) not in UINT_KINDS:
        if not _valid(index):
            raise GoError("cannot index slice/array with nil")
        raise GoError(f"cannot index slice/array with type {go_type(index)}")
    if not 0 <= index <= capacity:
        raise GoError(f"index out of range: {index}")
    return int(index)


def _map_key(index: Any, mapping: dict[Any, Any]) -> Any:
    key_type = "string"
    if isinstance(mapping, Map):
        key_type = mapping.go_type[len("map[") : mapping.go_type.index("]")]
    if not _valid(index):
        raise GoError(f"value is nil; should be of type {key_type}")
    integers = INT_KINDS | UINT_KINDS
    if go_type(index) == key_type or (kind(index) in integers and key_type in integers):
        return index
    raise GoError(f"value has type {go_type(index)}; should be {key_type}")


def _zero_element(mapping: dict[Any, Any]) -> Any:
    return None if is_interface_container(mapping) else "" if go_type(mapping).endswith("]string") else 0


def index(value: Any, *indexes: Any) -> Any:
    if not _valid(value):
        raise GoError("index of untyped nil")
    for at in indexes:
        if isinstance(value, dict):
            if value.__class__ is dict and at.__class__ is str:
                value = value.get(at)
                continue
            value = value.get(_map_key(at, value), _zero_element(value))
        elif isinstance(value, (list, tuple, bytes)):
            where = _index_arg(at, len(value))
            if where == len(value):
                raise GoError("reflect: slice index out of range")
            value = Uint8(value[where]) if isinstance(value, bytes) else value[where]
        elif isinstance(value, str):
            data = encode(value)
            where = _index_arg(at, len(data))
            if where == len(data):
                raise GoError("reflect: string index out of range")
            value = Uint8(data[where])
        elif value is None:
            raise GoError("index of nil pointer")
        else:
            raise GoError(f"can't index item of type {pointed_type(value)}")
    return value


def slice_(value: Any, *indexes: Any) -> Any:
    if not _valid(value):
        raise GoError("slice of untyped nil")
    if len(indexes) > 3:
        raise GoError(f"too many slice indexes: {len(indexes)}")
    is_text = isinstance(value, str)
    if is_text and len(indexes) == 3:
        raise GoError("cannot 3-index slice a string")
    if not is_text and not isinstance(value, (list, tuple, bytes)):
        raise GoError(f"can't slice item of type {pointed_type(value)}")
    data = encode(value) if is_text else value
    bounds = [0, len(data)]
    for at, bound in enumerate(indexes):
        bounds[at : at + 1] = [_index_arg(bound, len(data))]
    if bounds[0] > bounds[1]:
        raise GoError(f"invalid slice index: {bounds[0]} > {bounds[1]}")
    if len(bounds) > 2 and bounds[1] > bounds[2]:
        raise GoError(f"invalid slice index: {bounds[1]} > {bounds[2]}")
    part = data[bounds[0] : bounds[1]]
    if is_text:
        return decode(part)
    return Slice(part, value.go_type) if isinstance(value, Slice) else part


# Calls and printing


def call(source: str, callee: Any, *args: Any) -> Any:
    if not _valid(callee):
        raise GoError("call of nil")
    if kind(callee) != "func":
        raise GoError(f"non-function {source} of type {go_type(callee)}")
    signature = func(callee)
    fixed = len(signature.params) - signature.variadic
    if len(args) < fixed or (len(args) > fixed and not signature.variadic):
        wanted = f"at least {fixed}" if signature.variadic else str(fixed)
        raise GoError(f"wrong number of args for {source}: got {len(args)} want {wanted}")
    checked = []
    for at, arg in enumerate(args):
        wanted = signature.param(at)
        if wanted != ANY and go_type(arg) != wanted:
            if not _valid(arg):
                raise GoError(f"arg {at}: value is nil; should be of type {wanted}")
            if not (kind(arg) in INT_KINDS | UINT_KINDS and wanted in INT_KINDS | UINT_KINDS):
                raise GoError(f"arg {at}: value has type {go_type(arg)}; should be {wanted}")
            arg = Int64(arg) if wanted == "int64" else int(arg)
        checked.append(None if arg is MISSING else arg)
    return signature.call(*checked)


def printf(text: str, *args: Any) -> str:
    return _sized(sprintf(text, args))


def print_(*args: Any) -> str:
    return _sized(fmt.sprint(args))


def println(*args: Any) -> str:
    return _sized(fmt.sprintln(args))


def _sized(text: str) -> str:
    if len(text) > 4096:
        charge_size(len(text))
    return text


def _text_of(args: tuple[Any, ...]) -> str:
    if len(args) == 1 and isinstance(args[0], str):
        return args[0]
    return fmt.sprint(["<no value>" if arg is None else arg for arg in args])


_HTML = str.maketrans({"\0": "�", '"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;"})
_JS = {
    "\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026", "=": "\\u003D",
}  # fmt: skip


def html(*args: Any) -> str:
    return _sized(_text_of(args).translate(_HTML))


def _js_char(char: str) -> str:
    if char in _JS:
        return _JS[char]
    if char < " ":
        return f"\\u{ord(char):04X}"
    if char < "\x80" or unicode.is_print(char):
        return char
    return f"\\u{ord(char):04X}"


def js(*args: Any) -> str:
    return _sized("".join(map(_js_char, _text_of(args))))


def urlquery(*args: Any) -> str:
    return _sized(quote_plus(encode(_text_of(args)), safe=""))


def _never_called(*_args: Any) -> Any:
    raise AssertionError("and/or are compiled to operators")


BUILTINS: dict[str, Func] = {
    "and": Func(_never_called, (VALUE, VALUE), variadic=True, result=VALUE),
    "or": Func(_never_called, (VALUE, VALUE), variadic=True, result=VALUE),
    "not": Func(not_, (VALUE,), result="bool"),
    "len": Func(length, (VALUE,), result="int"),
    "index": Func(index, (VALUE, VALUE), variadic=True, result=VALUE),
    "slice": Func(slice_, (VALUE, VALUE), variadic=True, result=VALUE),
    "call": Func(call, (VALUE, VALUE), variadic=True, result=VALUE),
    "html": Func(html, (ANY,), variadic=True, result="string"),
    "js": Func(js, (ANY,), variadic=True, result="string"),
    "urlquery": Func(urlquery, (ANY,), variadic=True, result="string"),
    "print": Func(print_, (ANY,), variadic=True, result="string"),
    "printf": Func(printf, ("string", ANY), variadic=True, result="string"),
    "println": Func(println, (ANY,), variadic=True, result="string"),
    "eq": Func(eq, (VALUE, VALUE), variadic=True, result="bool"),
    "ne": Func(ne, (VALUE, VALUE), result="bool"),
    "lt": Func(lt, (VALUE, VALUE), result="bool"),
    "le": Func(le, (VALUE, VALUE), result="bool"),
    "gt": Func(gt, (VALUE, VALUE), result="bool"),
    "ge": Func(ge, (VALUE, VALUE), result="bool"),
}
