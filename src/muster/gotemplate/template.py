"""`Template`: parse once, compile once, render often.

Compiled programs are cached by text, delimiters and functions, so that making the same Template again costs a dict lookup. A
Template has no state: renders may run concurrently in any number of threads.

When a render fails, the traceback has the innermost frame of compiled code, and its line number the node of the template (see
`error_context.py`); from these the error gets Go's text.
"""

from __future__ import annotations

from collections import ChainMap, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from threading import Lock
from types import TracebackType
from typing import Any, Literal

from muster.gotemplate import nodes as nd
from muster.gotemplate.builtins import BUILTINS
from muster.gotemplate.compiler import Program, compile_trees, walk
from muster.gotemplate.error_context import Position, resolve
from muster.gotemplate.errors import EvalFailure, ExecError, LimitError, LimitExceeded, ParseError, TemplateError
from muster.gotemplate.limits import DEFAULT_LIMITS, Limits, current_meter
from muster.gotemplate.parser import parse_trees
from muster.gotemplate.prefetch import Call, render_async
from muster.gotemplate.runtime import Execution
from muster.gotemplate.signature import Func, func
from muster.gotemplate.sprig import SPRIG
from muster.gotemplate.values import MISSING
from muster.machinery.golang.quoting import quote
from muster.machinery.golang.text import encode

MissingKey = Literal["default", "zero", "error"]
_CACHE_SIZE = 1024
_NO_FUNCS: Mapping[str, Callable[..., Any]] = {}


class _ProgramCache:
    """The most recently used programs."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = Lock()
        self._programs: OrderedDict[object, tuple[Program, dict[str, nd.ListNode]]] = OrderedDict()

    def get(self, key: object) -> tuple[Program, dict[str, nd.ListNode]] | None:
        with self._lock:
            found = self._programs.get(key)
            if found is not None:
                self._programs.move_to_end(key)
            return found

    def put(self, key: object, program: tuple[Program, dict[str, nd.ListNode]]) -> None:
        with self._lock:
            self._programs[key] = program
            while len(self._programs) > self._size:
                self._programs.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._programs.clear()


_programs = _ProgramCache(_CACHE_SIZE)


def forget_programs() -> None:
    """Empties the cache of compiled programs."""
    _programs.clear()


def parse(
    text: str, *, name: str = "tmpl", delims: tuple[str, str] = ("{{", "}}"),
    funcs: Mapping[str, Callable[..., Any] | Func] | None = None, sprig: bool = True,
) -> dict[str, nd.ListNode]:  # fmt: skip
    """The parse trees of the text, by template name; raises ParseError."""
    return parse_trees(text, name, delims, {*BUILTINS, *(SPRIG if sprig else ()), *(funcs or ())})


class Template:
    """A Go template with the functions of sprig.

    `funcs` adds functions (or replaces sprig's); with `sprig=False` only Go's builtins remain. `name` appears in error
    messages. `missing_key` is Go's option of that name.
    """

    def __init__(
        self, text: str, *, name: str = "tmpl", delims: tuple[str, str] = ("{{", "}}"),
        funcs: Mapping[str, Callable[..., Any] | Func] | None = None, sprig: bool = True,
        missing_key: MissingKey = "default", limits: Limits = DEFAULT_LIMITS,
    ) -> None:  # fmt: skip
        self.text = text
        self.name = name
        self.limits = limits
        key = (text, name, delims, sprig, missing_key, tuple(funcs.items()) if funcs else ())
        found = _programs.get(key)
        if found is None:
            found = self._compile(delims, funcs, sprig, missing_key)
            _programs.put(key, found)
        self._program, self._trees = found
        self._main = self._program.functions[name]

    def _compile(
        self, delims: tuple[str, str], funcs: Mapping[str, Callable[..., Any] | Func] | None, sprig: bool,
        missing_key: str,
    ) -> tuple[Program, dict[str, nd.ListNode]]:  # fmt: skip
        available: Mapping[str, Func] = SPRIG if sprig else {}
        if funcs:
            available = {**available, **{name: func(call) for name, call in funcs.items()}}
        trees = parse_trees(self.text, self.name, delims, ChainMap(available, BUILTINS))  # type: ignore[arg-type]
        try:
            return compile_trees(trees, available, BUILTINS, missing_key), trees
        except (RecursionError, MemoryError, SyntaxError):
            message = "blocks are nested too deeply"
            text = f"template: {self.name}:1: {message}"
            raise ParseError(text, message=message, name=self.name, line=1) from None

    # Rendering

    def render(self, data: Any = None, *, bind: Mapping[str, Callable[..., Any]] | None = None) -> str:
        """The output for this data. `bind` has the implementations of functions declared `late`."""
        execution = Execution(self.limits, _NO_FUNCS if bind is None else bind)
        token = current_meter.set(execution)
        out: list[str] = []
        try:
            self._main(MISSING if data is None else data, out, execution, 0)
            return execution.text(out)
        except TemplateError:
            raise
        except Exception as error:
            raise self._located(error) from error
        finally:
            current_meter.reset(token)

    def render_bytes(self, data: Any = None, *, bind: Mapping[str, Callable[..., Any]] | None = None) -> bytes:
        """The output as Go would write it: its strings may contain invalid UTF-8."""
        return encode(self.render(data, bind=bind))

    async def render_async(
        self, data: Any = None, *, bind: Mapping[str, Callable[..., Awaitable[Any]]], concurrency: int = 16
    ) -> tuple[str, list[Call]]:
        """Renders with late functions that are coroutines; also returns the calls that the output depends on."""
        return await render_async(self, data, bind, concurrency)

    def constant_calls(self, names: frozenset[str]) -> Iterator[Call]:
        """Calls of these functions whose arguments are all string literals, which can be prefetched."""
        for root in self._trees.values():
            for node in walk(root):
                if not isinstance(node, nd.PipeNode):
                    continue
                first, *args = node.cmds[0].args
                texts = tuple(arg.text for arg in args if isinstance(arg, nd.StringNode))
                if isinstance(first, nd.IdentifierNode) and first.ident in names and len(texts) == len(args):
                    yield Call(first.ident, texts)

    @property
    def functions(self) -> frozenset[str]:
        """The names of all called functions, including those in branches that are not taken."""
        return self._program.called

    # Errors

    def _located(self, error: Exception) -> TemplateError:
        position, frame_locals = self._position(error.__traceback__)
        kind: type[ExecError] = ExecError
        function, shows_value = "", True
        if isinstance(error, LimitExceeded):
            kind, message, shows_value = LimitError, str(error), False
        elif isinstance(error, (RecursionError, MemoryError)):
            kind, message, shows_value = LimitError, "the template needs too much memory or nesting", False
        elif isinstance(error, EvalFailure):
            message, shows_value = str(error), error.shows_value
        elif position is None or not position.calling:
            message = str(error)
        else:
            function = position.calling
            message = f"error calling {function}: {error}"
        if position is None:
            text = f"template: {self.name}: {message}"
            return kind(text, message=message, name=self.name, shows_value=shows_value)
        node = resolve(position.node, frame_locals)
        if isinstance(error, EvalFailure) and error.names_node:
            message = message.replace("{node}", str(node))
        before = self.text[: node.pos]
        line = before.count("\n") + 1
        column = len(encode(before[before.rfind("\n") + 1 :]))
        text = f"template: {self.name}:{line}:{column}: executing {quote(position.template)} at <{node}>: {message}"
        return kind(
            text, message=message, name=position.template, line=line, column=column, node=str(node), function=function,
            shows_value=shows_value,
        )  # fmt: skip

    def _position(self, traceback: TracebackType | None) -> tuple[Position | None, Mapping[str, Any]]:
        """The position of the innermost frame of this program."""
        position: Position | None = None
        frame_locals: Mapping[str, Any] = {}
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_globals is self._program.namespace:
                position, frame_locals = self._program.positions[traceback.tb_lineno], frame.f_locals
            traceback = traceback.tb_next
        return position, frame_locals
