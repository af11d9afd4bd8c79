"""The parse tree of a template.

Nodes are plain data: a position in the text (an offset), and their parts. `str(node)` gives the source form that Go
shows in error messages, which is normalised (one space between arguments, ` | ` between commands).
"""

from __future__ import annotations

from muster.machinery.golang.quoting import quote


class Node:
    __slots__ = ("pos",)

    def __init__(self, pos: int) -> None:
        self.pos = pos


class ListNode(Node):
    __slots__ = ("assigned", "nodes")

    def __init__(self, pos: int) -> None:
        super().__init__(pos)
        self.nodes: list[Node] = []
        self.assigned: frozenset[str] = frozenset()
        """For the root of a template: the variables that a `=` in it assigns to."""

    def __str__(self) -> str:
        return "".join(map(str, self.nodes))


class TextNode(Node):
    __slots__ = ("text",)

    def __init__(self, pos: int, text: str) -> None:
        super().__init__(pos)
        self.text = text

    def __str__(self) -> str:
        return self.text


class PipeNode(Node):
    __slots__ = ("cmds", "decl", "is_assign")

    def __init__(self, pos: int) -> None:
        super().__init__(pos)
        self.decl: list[VariableNode] = []
        self.is_assign = False
        self.cmds: list[CommandNode] = []

    def __str__(self) -> str:
        head = ""
        if self.decl:
            head = ", ".join(map(str, self.decl)) + (" = " if self.is_assign else " := ")
        return head + " | ".join(map(str, self.cmds))


class ActionNode(Node):
    __slots__ = ("pipe",)

    def __init__(self, pos: int, pipe: PipeNode) -> None:
        super().__init__(pos)
        self.pipe = pipe

    def __str__(self) -> str:
        return f"{{{{{self.pipe}}}}}"


class CommandNode(Node):
    __slots__ = ("args",)

    def __init__(self, pos: int) -> None:
        super().__init__(pos)
        self.args: list[Node] = []

    def __str__(self) -> str:
        return " ".join(f"({arg})" if isinstance(arg, PipeNode) else str(arg) for arg in self.args)


class IdentifierNode(Node):
    __slots__ = ("ident",)

    def __init__(self, pos: int, ident: str) -> None:
        super().__init__(pos)
        self.ident = ident

    def __str__(self) -> str:
        return self.ident


class VariableNode(Node):
    """`$x` or `$x.a.b`; the first ident includes the dollar sign."""

    __slots__ = ("ident",)

    def __init__(self, pos: int, ident: list[str]) -> None:
        super().__init__(pos)
        self.ident = ident

    def __str__(self) -> str:
        return ".".join(self.ident)


class DotNode(Node):
    __slots__ = ()

    def __str__(self) -> str:
        return "."


class NilNode(Node):
    __slots__ = ()

    def __str__(self) -> str:
        return "nil"


class FieldNode(Node):
    __slots__ = ("ident",)

    def __init__(self, pos: int, ident: list[str]) -> None:
        super().__init__(pos)
        self.ident = ident

    def __str__(self) -> str:
        return "." + ".".join(self.ident)


class ChainNode(Node):
    """Fields of a term that is not a field or variable itself, as in `(index . 0).name`."""

    __slots__ = ("fields", "node")

    def __init__(self, pos: int, node: Node) -> None:
        super().__init__(pos)
        self.node = node
        self.fields: list[str] = []

    def __str__(self) -> str:
        head = f"({self.node})" if isinstance(self.node, PipeNode) else str(self.node)
        return head + "".join("." + field for field in self.fields)


class BoolNode(Node):
    __slots__ = ("value",)

    def __init__(self, pos: int, value: bool) -> None:
        super().__init__(pos)
        self.value = value

    def __str__(self) -> str:
        return "true" if self.value else "false"


class NumberNode(Node):
    """A number as every type that can represent it, as Go's ideal constants."""

    __slots__ = ("as_complex", "as_float", "as_int", "as_uint", "text")

    def __init__(self, pos: int, text: str) -> None:
        super().__init__(pos)
        self.text = text
        self.as_int: int | None = None
        self.as_uint: int | None = None
        self.as_float: float | None = None
        self.as_complex: complex | None = None

    def __str__(self) -> str:
        return self.text


class StringNode(Node):
    __slots__ = ("quoted", "text")

    def __init__(self, pos: int, quoted: str, text: str) -> None:
        super().__init__(pos)
        self.quoted = quoted
        self.text = text

    def __str__(self) -> str:
        return self.quoted


class EndNode(Node):
    """`{{end}}`; only the parser sees it."""

    __slots__ = ()

    def __str__(self) -> str:
        return "{{end}}"


class ElseNode(Node):
    """`{{else}}`; only the parser sees it."""

    __slots__ = ()

    def __str__(self) -> str:
        return "{{else}}"


class BranchNode(Node):
    """The common structure of if, with and range."""

    __slots__ = ("body", "else_body", "pipe")
    keyword = ""

    def __init__(self, pos: int, pipe: PipeNode, body: ListNode, else_body: ListNode | None) -> None:
        super().__init__(pos)
        self.pipe = pipe
        self.body = body
        self.else_body = else_body

    def __str__(self) -> str:
        tail = "" if self.else_body is None else f"{{{{else}}}}{self.else_body}"
        return f"{{{{{self.keyword} {self.pipe}}}}}{self.body}{tail}{{{{end}}}}"


class IfNode(BranchNode):
    __slots__ = ()
    keyword = "if"


class WithNode(BranchNode):
    __slots__ = ()
    keyword = "with"


class RangeNode(BranchNode):
    __slots__ = ()
    keyword = "range"


class BreakNode(Node):
    __slots__ = ()

    def __str__(self) -> str:
        return "{{break}}"


class ContinueNode(Node):
    __slots__ = ()

    def __str__(self) -> str:
        return "{{continue}}"


class TemplateNode(Node):
    __slots__ = ("name", "pipe")

    def __init__(self, pos: int, name: str, pipe: PipeNode | None) -> None:
        super().__init__(pos)
        self.name = name
        self.pipe = pipe

    def __str__(self) -> str:
        return f"{{{{template {quote(self.name)}{'' if self.pipe is None else f' {self.pipe}'}}}}}"


def is_empty(node: Node | None) -> bool:
    """Whether the tree contains only white space."""
    if node is None:
        return True
    if isinstance(node, ListNode):
        return all(map(is_empty, node.nodes))
    return isinstance(node, TextNode) and not node.text.strip()
