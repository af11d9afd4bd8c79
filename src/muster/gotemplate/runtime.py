"""The run-time functions of compiled templates.

The compiler inlines the common cases (a field of a plain dict, a string to print); these functions are the rest of Go's evaluation
rules. They raise EvalFailure with the reason only: the position is known to the compiled code, whose line numbers are indexes into
a table of nodes (see `compiler.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

from muster.gotemplate.errors import EvalFailure
from muster.gotemplate.golang import fmt
from muster.gotemplate.limits import Limits, Meter
from muster.gotemplate.nodes import BoolNode, NilNode, Node, NumberNode, StringNode
from muster.gotemplate.signature import ANY, VALUE, Func, nillable, zero
from muster.gotemplate.values import INT_KINDS, MISSING, UINT_KINDS, Map, Slice, Struct, go_type, is_interface_container, kind
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.quoting import quote
from muster.machinery.golang.text import byte_len, joined

CHUNK = 512
_PENDING_PARTS = 8192


class Execution(Meter):
    """The state of one run: its meter, the flushed output, and the functions bound for this run."""

    __slots__ = ("done", "funcs", "written")

    def __init__(self, limits: Limits, funcs: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(limits)
        self.funcs = funcs
        self.done: list[str] = []
        self.written = 0

    def flush(self, out: list[str]) -> None:
        """Moves output aside, after a check of its size."""
        self.written += sum(map(len, out))
        self.size(self.written)
        self.done.append("".join(out))
        out.clear()

    def text(self, out: list[str]) -> str:
        """All of the output."""
        if self.done or len(out) > CHUNK:
            self.flush(out)
            text = "".join(self.done)
        else:
            text = "".join(out)
        if text.isascii():
            self.size(len(text))
            return text
        self.size(byte_len(text))
        return joined(text)


def fail(message: str, *_evaluated: Any) -> NoReturn:
    raise EvalFailure(message)


def enter(execution: Execution, out: list[str], depth: int) -> int:
    """Accounts for one template call and returns the depth inside it."""
    execution.charge(1)
    if len(out) > _PENDING_PARTS:
        execution.flush(out)
    if depth >= execution.limits.depth:
        raise EvalFailure(f"exceeded maximum template depth ({execution.limits.depth})")
    return depth + 1


# Types


def want(value: Any, type_name: str) -> Any:
    """The value as an argument of the given type (Go's validateType)."""
    if value is MISSING:
        if type_name == VALUE:
            return value
        if nillable(type_name):
            return zero(type_name)
        raise EvalFailure(f"invalid value; expected {type_name}")
    if type_name in (ANY, VALUE) or go_type(value) == type_name:
        return value
    raise EvalFailure(f"wrong type for value; expected {type_name}; got {go_type(value)}")


def ideal_constant(node: NumberNode) -> Any:
    """A number literal without an expected type: its syntax decides."""
    text = node.text
    if node.as_complex is not None:
        return node.as_complex
    hexadecimal = len(text) > 2 and text[0] == "0" and text[1] in "xX" and not ("p" in text or "P" in text)
    if node.as_float is not None and not hexadecimal and text[0] != "'" and any(c in text for c in ".eEpP"):
        return node.as_float
    if node.as_int is not None:
        return node.as_int
    raise EvalFailure(f"{text} overflows int")


def literal(node: Node, type_name: str) -> Any:
    """A literal as an argument of the given type."""
    if isinstance(node, NilNode):
        if type_name == VALUE:
            return MISSING
        if nillable(type_name):
            return zero(type_name)
        raise EvalFailure(f"cannot assign nil to {type_name}")
    if type_name in (ANY, VALUE):
        if isinstance(node, NumberNode):
            return ideal_constant(node)
        return node.text if isinstance(node, StringNode) else node.value if isinstance(node, BoolNode) else None
    if type_name == "bool":
        if isinstance(node, BoolNode):
            return node.value
        raise EvalFailure(f"expected bool; found {node}")
    if type_name == "string":
        if isinstance(node, StringNode):
            return node.text
        raise EvalFailure(f"expected string; found {node}")
    if type_name in INT_KINDS or type_name in ("time.Duration", "time.Month", "time.Weekday"):
        if isinstance(node, NumberNode) and node.as_int is not None:
            return node.as_int
        raise EvalFailure(f"expected integer; found {node}")
    if type_name in UINT_KINDS:
        if isinstance(node, NumberNode) and node.as_uint is not None:
            return node.as_uint
        raise EvalFailure(f"expected unsigned integer; found {node}")
    if type_name == "float64":
        if isinstance(node, NumberNode) and node.as_float is not None:
            return node.as_float
        raise EvalFailure(f"expected float; found {node}")
    raise EvalFailure(f"can't handle {node} for arg of type {type_name}")


# Fields and methods


def _static_type(value: Any, container: Any) -> str:
    """The type that Go shows in errors: that of the element of the container."""
    return "interface {}" if container is not None and is_interface_container(container) else go_type(value)


def find_method(value: Any, name: str) -> Func | None:
    methods: Mapping[str, Func] | None = getattr(value, "go_methods", None)
    return methods.get(name) if methods else None


def field(value: Any, name: str, container: Any = None) -> Any:
    """`.name` of the value, which is an element of `container` if that is not None."""
    if value.__class__ is Struct and name in value.fields:
        return value.fields[name]
    if value is MISSING:
        return MISSING
    if value is None:
        raise EvalFailure(f"nil pointer evaluating interface {{}}.{name}")
    method = find_method(value, name)
    if method is not None:
        return invoke(method, name, (), value)
    if isinstance(value, dict) and (value.__class__ is not Map or value.go_type.startswith("map[string]")):
        return value.get(name, MISSING)
    raise EvalFailure(f"can't evaluate field {name} in type {_static_type(value, container)}")


def field_or_fail(value: Any, name: str, container: Any = None) -> Any:
    """`.name` under missingkey=error."""
    if value is MISSING:
        raise EvalFailure(f"nil data; no entry for key {quote(name)}")
    found = field(value, name, container)
    if found is MISSING:
        raise EvalFailure(f"map has no entry for key {quote(name)}")
    return found


def field_or_zero(value: Any, name: str, container: Any = None) -> Any:
    """`.name` under missingkey=zero."""
    found = field(value, name, container)
    if found is MISSING and value is not MISSING:
        return "" if go_type(value).endswith("]string") else None
    return found


def field_call(value: Any, name: str, args: tuple[Callable[[str], Any], ...], container: Any, *final: Any) -> Any:
    """`.name` with arguments: only a method takes any. Arguments are evaluated once the method is known."""
    if value is MISSING:
        return MISSING
    if value is None:
        raise EvalFailure(f"nil pointer evaluating interface {{}}.{name}")
    method = find_method(value, name)
    if method is not None:
        return invoke(method, name, args, value, *final)
    if value.__class__ is Struct and name in value.fields:
        raise EvalFailure(f"{name} has arguments but cannot be invoked as function")
    if isinstance(value, dict) and (value.__class__ is not Map or value.go_type.startswith("map[string]")):
        raise EvalFailure(f"{name} is not a method but has arguments")
    raise EvalFailure(f"can't evaluate field {name} in type {_static_type(value, container)}")


def invoke(method: Func, name: str, args: tuple[Callable[[str], Any], ...], receiver: Any, *final: Any) -> Any:
    problem = method.arity_problem(len(args) + len(final), len(args))
    if problem:
        raise EvalFailure(f"wrong number of args for {name}: {problem}")
    values = [arg(method.param(at)) for at, arg in enumerate(args)]
    values += [want(value, method.param(len(args))) for value in final]
    try:
        return method.call(receiver, *values)
    except GoError as error:
        raise EvalFailure(f"error calling {name}: {error}", shows_value=True) from error


# Output and loops


class ShowTable(dict[type, Callable[[Any], str]]):
    """How values of a class are printed: simple classes directly, all others by `show`."""

    def __missing__(self, _cls: type) -> Callable[[Any], str]:
        return show


SHOW = ShowTable({int: str, float: fmt.show_float, bool: fmt.show_bool})


def show(value: Any) -> str:
    """The value as an action prints it."""
    if value is MISSING:
        return "<no value>"
    if kind(value) == "func":
        raise EvalFailure(f"can't print {{node}} of type {go_type(value)}", names_node=True)
    return fmt.show(value)


def _chunked(values: Any, execution: Execution, out: list[str]) -> Iterator[Any]:
    for start in range(0, len(values), CHUNK):
        part = values[start : start + CHUNK]
        execution.charge(len(part))
        execution.flush(out)
        yield from part


def _rounds(values: Any, execution: Execution, out: list[str]) -> Iterable[Any]:
    if len(values) > CHUNK:
        return _chunked(values, execution, out)
    execution.charge(len(values))
    if len(out) > _PENDING_PARTS:
        execution.flush(out)
    return values  # type: ignore[no-any-return]


def iterate(value: Any, execution: Execution, out: list[str]) -> Iterable[Any] | None:
    """The elements that `range` visits, or None if there are none."""
    cls = value.__class__
    if cls is list or cls is Slice:
        return _rounds(value, execution, out) if value else None
    if isinstance(value, dict):
        if not value:
            return None
        return _rounds([item for _, item in fmt.sorted_items(value)], execution, out)
    if cls is int:
        return _rounds(range(value), execution, out) if value > 0 else None
    if value is None or value is MISSING:
        return None
    if isinstance(value, (list, tuple)):
        return _rounds(value, execution, out) if value else None
    if isinstance(value, bytes):
        return _rounds(value, execution, out) if value else None
    if kind(value) in INT_KINDS or kind(value) in UINT_KINDS:
        return map(cls, _rounds(range(value), execution, out)) if value > 0 else None
    raise EvalFailure(f"range can't iterate over {fmt.show(value)}", shows_value=True)


def iterate_pairs(value: Any, execution: Execution, out: list[str]) -> Iterable[tuple[Any, Any]] | None:
    """Index or key, and element, for a `range` with two variables."""
    if isinstance(value, dict):
        return _rounds(fmt.sorted_items(value), execution, out) if value else None
    if isinstance(value, int) and not isinstance(value, bool):
        raise EvalFailure(f"can't use {fmt.show(value)} to iterate over more than one variable", shows_value=True)
    found = iterate(value, execution, out)
    return None if found is None else enumerate(found)
