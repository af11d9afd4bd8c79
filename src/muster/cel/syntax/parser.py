"""Tokens to a syntax tree, macros expanded.

Precedence climbing keeps the recursion shallow: two frames per nesting level. The first syntax error ends the parse
and is worded as cel-go's generated parser words it; errors of another sort (a reserved word, a number out of
range, a bad macro argument) are collected, and the parse goes on. Chains of `&&` and of `||` become one call with many
arguments: their order of evaluation does not depend on nesting, and long chains stay shallow.
"""

from __future__ import annotations

from typing import NoReturn

from muster.cel.errors import CompileError, Issue
from muster.cel.syntax.ast import Call, Entry, Ident, ListExpr, Literal, MapExpr, Node, Select, StructExpr, qualified_name
from muster.cel.syntax.lexer import EOF, Token, tokenize
from muster.cel.syntax.literals import LiteralError, parse_bytes, parse_double, parse_int, parse_string, parse_uint
from muster.cel.syntax.macros import MacroError, MacroTable

MAX_DEPTH = 250
MAX_CODE_POINTS = 100_000

RESERVED = frozenset(
    {"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"}
    | {"namespace", "null", "package", "return", "true", "var", "void", "while"}
)
_BINARY: dict[str, tuple[int, str]] = {
    "||": (1, "_||_"),
    "&&": (2, "_&&_"),
    "<": (3, "_<_"),
    "<=": (3, "_<=_"),
    ">=": (3, "_>=_"),
    ">": (3, "_>_"),
    "==": (3, "_==_"),
    "!=": (3, "_!=_"),
    "in": (3, "@in"),
    "+": (4, "_+_"),
    "-": (4, "_-_"),
    "*": (5, "_*_"),
    "/": (5, "_/_"),
    "%": (5, "_%_"),
}
_STARTS = ("[", "{", "(", ".", "-", "!", "true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES",
           "IDENTIFIER")  # fmt: skip
_START_SET = frozenset(_STARTS)


def parse(source: str, macros: MacroTable) -> Node:
    """The tree of an expression; raises CompileError."""
    if len(source) > MAX_CODE_POINTS:
        message = f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_CODE_POINTS}"
        raise CompileError(source, [Issue(-1, message)])
    tokens, issues = tokenize(source)
    parser = _Parser(tokens, issues, macros)
    try:
        tree = parser.start()
    except _SyntaxError as error:
        raise CompileError(source, [*issues, Issue(error.offset, f"Syntax error: {error}")]) from None
    except (_TooDeep, RecursionError):
        raise CompileError(source, [Issue(-1, f"expression recursion limit exceeded: {MAX_DEPTH}")]) from None
    if issues:
        raise CompileError(source, issues)
    return tree


class _SyntaxError(Exception):
    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


class _TooDeep(Exception):
    pass


def _quoted(kinds: tuple[str, ...]) -> str:
    names = [kind if kind == EOF or kind.isupper() else f"'{kind}'" for kind in kinds]
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


class _Parser:
    def __init__(self, tokens: list[Token], issues: list[Issue], macros: MacroTable) -> None:
        self.tokens = tokens
        self.issues = issues
        self.macros = macros
        self.at = 0
        self.depth = 0

    def start(self) -> Node:
        tree = self.expr()
        if self.tokens[self.at].kind != EOF:
            self.unexpected((EOF,))
        return tree

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, kind: str) -> Token | None:
        token = self.tokens[self.at]
        if token.kind != kind:
            return None
        self.at += 1
        return token

    def expect(self, *kinds: str) -> Token:
        token = self.tokens[self.at]
        if token.kind not in kinds:
            self.unexpected(kinds)
        self.at += 1
        return token

    def unexpected(self, expected: tuple[str, ...]) -> NoReturn:
        """Deleting the token would help: extraneous. Inserting one would: missing. Otherwise: mismatched."""
        token = self.tokens[self.at]
        following = self.tokens[self.at + 1].kind if self.at + 1 < len(self.tokens) else None
        if following in expected:
            raise _SyntaxError(token.offset, f"extraneous input '{token.text}' expecting {_quoted(expected)}")
        if expected == (")",):
            raise _SyntaxError(token.offset, f"missing ')' at '{token.text}'")
        raise _SyntaxError(token.offset, f"mismatched input '{token.text}' expecting {_quoted(expected)}")

    def complain(self, offset: int, message: str) -> Node:
        self.issues.append(Issue(offset, message))
        return Literal(offset, None)

    def expr(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _TooDeep
        condition = self.binary(1)
        mark = self.accept("?")
        if mark is not None:
            then = self.binary(1)
            self.expect(":")
            condition = Call(mark.offset, "_?_:_", [condition, then, self.expr()])
        self.depth -= 1
        return condition

    def binary(self, lowest: int) -> Node:
        left = self.unary()
        operations = 0
        while True:
            token = self.tokens[self.at]
            operator = _BINARY.get(token.kind)
            if operator is None or operator[0] < lowest:
                return left
            self.at += 1
            strength, name = operator
            right = self.binary(strength + 1)
            if strength <= 2 and isinstance(left, Call) and left.name == name and operations:
                left.args.append(right)
                continue
            operations += 1
            if operations > MAX_DEPTH:
                raise _TooDeep
            left = self.call(token.offset, name, None, [left, right])

    def unary(self) -> Node:
        token = self.tokens[self.at]
        if token.kind == "!":
            count = self.skip_run("!")
            operand = self.member()
            return operand if count % 2 == 0 else Call(token.offset, "!_", [operand])
        if token.kind == "-" and self.tokens[self.at + 1].kind not in ("NUM_INT", "NUM_FLOAT"):
            count = self.skip_run("-")
            operand = self.member()
            return operand if count % 2 == 0 else Call(token.offset, "-_", [operand])
        return self.member()

    def skip_run(self, kind: str) -> int:
        count = 0
        while self.tokens[self.at].kind == kind:
            self.at += 1
            count += 1
        return count

    def member(self) -> Node:
        node = self.primary()
        links = 0
        while True:
            kind = self.tokens[self.at].kind
            if kind == ".":
                node = self.selection(node)
            elif kind == "[":
                bracket = self.take()
                optional = self.accept("?") is not None
                index = self.expr()
                self.expect("]")
                node = self.call(bracket.offset, "_[?_]" if optional else "_[_]", None, [node, index])
            elif kind == "{":
                message = self.message(node)
                if message is None:
                    return node
                node = message
            else:
                return node
            links += 1
            if links > MAX_DEPTH:
                raise _TooDeep

    def selection(self, operand: Node) -> Node:
        dot = self.take()
        optional = self.accept("?") is not None
        token = self.tokens[self.at]
        if token.kind == "ESC_IDENTIFIER":
            self.at += 1
            return self.complain(token.offset, "unsupported syntax: '`'")
        if token.kind != "IDENTIFIER":
            if token.kind in ("true", "false", "null"):
                raise _SyntaxError(token.offset, f"mismatched input '{token.text}' expecting IDENTIFIER")
            shown = "" if token.kind == EOF else token.text
            raise _SyntaxError(token.offset, f"no viable alternative at input '.{shown}'")
        self.at += 1
        if optional:
            return Call(dot.offset, "_?._", [operand, Literal(token.offset, token.text)])
        opening = self.accept("(")
        if opening is None:
            return Select(dot.offset, operand, token.text)
        return self.call(opening.offset, token.text, operand, self.arguments())

    def arguments(self) -> list[Node]:
        if self.accept(")"):
            return []
        if self.tokens[self.at].kind not in _START_SET:
            self.unexpected((*_STARTS[:3], ")", *_STARTS[3:]))
        arguments = [self.expr()]
        while self.accept(","):
            arguments.append(self.expr())
        self.expect(")", ",")
        return arguments

    def call(self, offset: int, name: str, target: Node | None, args: list[Node]) -> Node:
        expander = self.macros.get((name, len(args), target is not None))
        if expander is not None:
            try:
                expanded = expander(offset, target, args)
            except MacroError as error:
                return self.complain(error.offset, str(error))
            if expanded is not None:
                return expanded
        return Call(offset, name, args, target)

    def primary(self) -> Node:
        token = self.tokens[self.at]
        kind = token.kind
        if kind == "IDENTIFIER":
            return self.identifier("")
        if kind == "(":
            self.at += 1
            nested = self.expr()
            self.expect(")")
            return nested
        if kind == "[":
            return self.list_literal()
        if kind == "{":
            self.at += 1
            return MapExpr(token.offset, self.entries(fields=False))
        if kind == ".":
            self.at += 1
            if self.tokens[self.at].kind != "IDENTIFIER":
                self.unexpected(("IDENTIFIER",))
            return self.identifier(".")
        return self.literal()

    def identifier(self, dot: str) -> Node:
        token = self.take()
        if token.text in RESERVED:
            node = self.complain(token.offset, f"reserved identifier: {token.text}")
            if self.accept("("):
                self.arguments()
            return node
        opening = self.accept("(")
        if opening is None:
            return Ident(token.offset, dot + token.text)
        return self.call(opening.offset, dot + token.text, None, self.arguments())

    def list_literal(self) -> Node:
        bracket = self.take()
        elements: list[Node] = []
        optional: set[int] = set()
        while self.tokens[self.at].kind != "]":
            if self.tokens[self.at].kind == "," and elements:
                self.unexpected(("]",))
            if self.accept("?"):
                optional.add(len(elements))
            elements.append(self.expr())
            if not self.accept(","):
                self.check_close("]")
        self.at += 1
        return ListExpr(bracket.offset, elements, frozenset(optional))

    def check_close(self, closing: str) -> None:
        if self.tokens[self.at].kind != closing:
            self.unexpected((closing, ","))

    def entries(self, fields: bool) -> list[Entry]:
        entries: list[Entry] = []
        while self.tokens[self.at].kind != "}":
            if self.tokens[self.at].kind == "," and entries:
                self.unexpected(("}",))
            optional = self.accept("?") is not None
            key: Node
            if fields:
                name = self.expect("IDENTIFIER")
                key = Literal(name.offset, name.text)
            else:
                key = self.expr()
            colon = self.expect(":")
            entries.append(Entry(colon.offset, key, self.expr(), optional))
            if not self.accept(","):
                self.check_close("}")
        self.at += 1
        return entries

    def message(self, node: Node) -> Node | None:
        """`Name{…}`: the brace follows a qualified name, which nothing else in the grammar allows."""
        name = qualified_name(node)
        if name is None:
            return None
        brace = self.take()
        return StructExpr(brace.offset, name, self.entries(fields=True))

    def literal(self) -> Node:
        token = self.tokens[self.at]
        negative = token.kind == "-"
        number = self.tokens[self.at + 1] if negative else token
        try:
            match number.kind:
                case "NUM_INT":
                    value: object = parse_int(number.text, negative)
                case "NUM_FLOAT":
                    value = parse_double(number.text, negative)
                case "NUM_UINT" if not negative:
                    value = parse_uint(number.text)
                case "STRING" if not negative:
                    value = parse_string(number.text)
                case "BYTES" if not negative:
                    value = parse_bytes(number.text)
                case "true" | "false" if not negative:
                    value = number.kind == "true"
                case "null" if not negative:
                    value = None
                case _:
                    self.no_operand()
        except LiteralError as error:
            self.at += 2 if negative else 1
            return self.complain(token.offset, str(error))
        self.at += 2 if negative else 1
        return Literal(token.offset, value)

    def no_operand(self) -> NoReturn:
        token = self.tokens[self.at]
        following = self.tokens[self.at + 1].kind if self.at + 1 < len(self.tokens) else None
        verb = "extraneous" if following in _START_SET else "mismatched"
        raise _SyntaxError(token.offset, f"{verb} input '{token.text}' expecting {_quoted(_STARTS)}")
