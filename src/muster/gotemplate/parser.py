"""Parses tokens into trees, by the rules and with the error texts of Go's text/template/parse.

One `_Tree` parses one template: the main text, or the body of a `define` or `block` (which starts a tree of its own
over the same tokens). Functions must exist and variables must be declared when the text is parsed, as in Go. Depth of
nesting is bounded well below Python's own recursion limit, so hostile text ends in a ParseError.
"""

from __future__ import annotations

from collections.abc import Collection

from muster.gotemplate import lexer as lx
from muster.gotemplate import literals
from muster.gotemplate import nodes as nd
from muster.gotemplate.errors import ParseError
from muster.gotemplate.lexer import Lexer, Token
from muster.machinery.golang import quoting
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.quoting import quote

MAX_PAREN_DEPTH = 100
MAX_BLOCK_DEPTH = 100
MAX_ELSE_CHAIN = 200
MAX_TOKENS = 100_000
"""Compile time is proportional to the text, and not covered by the limits of an execution."""

_OPERANDS = frozenset(
    {lx.BOOL, lx.CHAR_CONSTANT, lx.COMPLEX, lx.DOT, lx.FIELD, lx.IDENTIFIER, lx.NUMBER, lx.NIL, lx.RAW_STRING,
     lx.STRING, lx.VARIABLE, lx.LEFT_PAREN}
)  # fmt: skip
_NOT_EXECUTABLE = (nd.BoolNode, nd.DotNode, nd.NilNode, nd.NumberNode, nd.StringNode)
_BRANCHES: dict[str, type[nd.BranchNode]] = {"if": nd.IfNode, "range": nd.RangeNode, "with": nd.WithNode}


class _Source:
    """The shared state of the trees of one text: the tokens, the names, the depth."""

    def __init__(self, name: str, tokens: list[Token], funcs: Collection[str]) -> None:
        self.name = name
        self.tokens = tokens
        self.funcs = funcs
        self.next = 0
        self.trees: dict[str, nd.ListNode] = {}
        self.block_depth = 0
        self.paren_depth = 0


class _Tree:
    def __init__(self, source: _Source, name: str) -> None:
        self.source = source
        self.name = name
        self.vars: list[str] = ["$"]
        self.pending: list[Token] = []
        """Tokens that were put back, the next one last."""
        self.last = Token(lx.EOF, 0, "", 0)
        """The token last read from the source by this tree, whose line Go reports."""
        self.action_line = 0
        self.range_depth = 0
        self.else_chain = 0
        self.assigned: set[str] = set()

    # Tokens

    def _next(self) -> Token:
        if self.pending:
            return self.pending.pop()
        source = self.source
        token = source.tokens[source.next]
        if source.next + 1 < len(source.tokens):
            source.next += 1
        self.last = token
        return token

    def _peek(self) -> Token:
        if not self.pending:
            self.pending.append(self._next())
        return self.pending[-1]

    def _next_non_space(self) -> Token:
        token = self._next()
        while token.kind == lx.SPACE:
            token = self._next()
        return token

    def _peek_non_space(self) -> Token:
        token = self._next_non_space()
        self.pending.append(token)
        return token

    # Errors

    def _error(self, message: str) -> ParseError:
        line = self.last.line
        text = f"template: {self.source.name}:{line}: {message}"
        return ParseError(text, message=message, name=self.source.name, line=line)

    def _unexpected(self, token: Token, context: str) -> ParseError:
        if token.kind == lx.ERROR:
            extra = ""
            if self.action_line and self.action_line != token.line:
                extra = f" in action started at {self.source.name}:{self.action_line}"
                if token.text.endswith(" action"):
                    extra = extra[len(" in action") :]
            return self._error(f"{token}{extra}")
        return self._error(f"unexpected {token} in {context}")

    def _expect(self, kind: int, context: str) -> Token:
        token = self._next_non_space()
        if token.kind != kind:
            raise self._unexpected(token, context)
        return token

    # Templates

    def parse_main(self) -> None:
        root = nd.ListNode(self._peek().pos)
        while self._peek().kind != lx.EOF:
            if self._peek().kind == lx.LEFT_DELIM:
                delim = self._next()
                token = self._next_non_space()
                if token.kind == lx.DEFINE:
                    _Tree(self.source, "definition").parse_definition()
                    continue
                self.pending += [token, delim]
            node = self._text_or_action()
            if isinstance(node, (nd.EndNode, nd.ElseNode)):
                raise self._error(f"unexpected {node}")
            root.nodes.append(node)
        self._add(root)

    def parse_definition(self) -> None:
        context = "define clause"
        token = self._next_non_space()
        if token.kind not in (lx.STRING, lx.RAW_STRING):
            raise self._unexpected(token, context)
        self.name = self._unquoted(token)
        self._expect(lx.RIGHT_DELIM, context)
        root, end = self._item_list()
        if not isinstance(end, nd.EndNode):
            raise self._error(f"unexpected {end} in {context}")
        self._add(root)

    def _add(self, root: nd.ListNode) -> None:
        trees = self.source.trees
        root.assigned = frozenset(self.assigned)
        if nd.is_empty(trees.get(self.name)):
            trees[self.name] = root
        elif not nd.is_empty(root):
            raise self._error(f"template: multiple definition of template {quote(self.name)}")

    def _unquoted(self, token: Token) -> str:
        try:
            return quoting.unquote(token.text)
        except GoError as error:
            raise self._error(str(error)) from None

    # Lists and actions

    def _item_list(self) -> tuple[nd.ListNode, nd.Node]:
        nodes = nd.ListNode(self._peek_non_space().pos)
        while self._peek_non_space().kind != lx.EOF:
            node = self._text_or_action()
            if isinstance(node, (nd.EndNode, nd.ElseNode)):
                return nodes, node
            nodes.nodes.append(node)
        raise self._error("unexpected EOF")

    def _text_or_action(self) -> nd.Node:
        token = self._next_non_space()
        if token.kind == lx.TEXT:
            return nd.TextNode(token.pos, token.text)
        if token.kind == lx.LEFT_DELIM:
            self.action_line = token.line
            node = self._action()
            self.action_line = 0
            return node
        raise self._unexpected(token, "input")

    def _action(self) -> nd.Node:
        token = self._next_non_space()
        kind = token.kind
        if kind > lx.KEYWORD:
            if kind in (lx.IF, lx.RANGE, lx.WITH):
                return self._branch(token.text)
            if kind == lx.END:
                return nd.EndNode(self._expect(lx.RIGHT_DELIM, "end").pos)
            if kind == lx.ELSE:
                return self._else()
            if kind == lx.TEMPLATE:
                return self._template()
            if kind == lx.BLOCK:
                return self._block()
            if kind in (lx.BREAK, lx.CONTINUE):
                return self._loop_control(token)
        self.pending.append(token)
        return nd.ActionNode(token.pos, self._pipeline("command", lx.RIGHT_DELIM))

    def _loop_control(self, token: Token) -> nd.Node:
        node = nd.BreakNode(token.pos) if token.kind == lx.BREAK else nd.ContinueNode(token.pos)
        after = self._next_non_space()
        if after.kind != lx.RIGHT_DELIM:
            raise self._unexpected(after, str(node))
        if not self.range_depth:
            raise self._error(f"{node} outside {{{{range}}}}")
        return node

    def _else(self) -> nd.Node:
        token = self._peek_non_space()
        if token.kind not in (lx.IF, lx.WITH):
            token = self._expect(lx.RIGHT_DELIM, "else")
        return nd.ElseNode(token.pos)

    def _branch(self, keyword: str) -> nd.Node:
        self.source.block_depth += 1
        if self.source.block_depth > MAX_BLOCK_DEPTH:
            raise self._error("blocks are nested too deeply")
        declared = len(self.vars)
        pipe = self._pipeline(keyword, lx.RIGHT_DELIM)
        self.range_depth += keyword == "range"
        body, end = self._item_list()
        self.range_depth -= keyword == "range"
        else_body: nd.ListNode | None = None
        if isinstance(end, nd.ElseNode):
            token = self._peek()
            if (keyword == "if" and token.kind == lx.IF) or (keyword == "with" and token.kind == lx.WITH):
                self._next()
                else_body = nd.ListNode(end.pos)
                else_body.nodes.append(self._else_branch(keyword))
            else:
                else_body, end = self._item_list()
                if not isinstance(end, nd.EndNode):
                    raise self._error(f"expected end; found {end}")
        del self.vars[declared:]
        self.source.block_depth -= 1
        return _BRANCHES[keyword](pipe.pos, pipe, body, else_body)

    def _else_branch(self, keyword: str) -> nd.Node:
        """`else if` and `else with`: a chain is long rather than deep, so it has a limit of its own."""
        self.else_chain += 1
        if self.else_chain > MAX_ELSE_CHAIN:
            raise self._error("blocks are nested too deeply")
        self.source.block_depth -= 1
        node = self._branch(keyword)
        self.source.block_depth += 1
        self.else_chain -= 1
        return node

    def _template_name(self, token: Token, context: str) -> str:
        if token.kind not in (lx.STRING, lx.RAW_STRING):
            raise self._unexpected(token, context)
        return self._unquoted(token)

    def _template(self) -> nd.Node:
        token = self._next_non_space()
        name = self._template_name(token, "template clause")
        pipe = None
        after = self._next_non_space()
        if after.kind != lx.RIGHT_DELIM:
            self.pending.append(after)
            pipe = self._pipeline("template clause", lx.RIGHT_DELIM)
        return nd.TemplateNode(token.pos, name, pipe)

    def _block(self) -> nd.Node:
        context = "block clause"
        token = self._next_non_space()
        name = self._template_name(token, context)
        pipe = self._pipeline(context, lx.RIGHT_DELIM)
        self.source.block_depth += 1
        if self.source.block_depth > MAX_BLOCK_DEPTH:
            raise self._error("blocks are nested too deeply")
        block = _Tree(self.source, name)
        root, end = block._item_list()
        self.source.block_depth -= 1
        if not isinstance(end, nd.EndNode):
            raise self._error(f"unexpected {end} in {context}")
        block._add(root)
        return nd.TemplateNode(token.pos, name, pipe)

    # Pipelines

    def _pipeline(self, context: str, end: int) -> nd.PipeNode:
        pipe = nd.PipeNode(self._peek_non_space().pos)
        while self._declaration(pipe, context):
            pass
        while True:
            token = self._next_non_space()
            if token.kind == end:
                self._check_pipeline(pipe, context)
                return pipe
            if token.kind not in _OPERANDS:
                raise self._unexpected(token, context)
            self.pending.append(token)
            pipe.cmds.append(self._command())

    def _declaration(self, pipe: nd.PipeNode, context: str) -> bool:
        """Takes `$x :=`, `$x =` or `$x,` from the front; true if another declaration may follow."""
        variable = self._peek_non_space()
        if variable.kind != lx.VARIABLE:
            return False
        self._next()
        after = self._peek()
        token = self._peek_non_space()
        if token.kind in (lx.ASSIGN, lx.DECLARE):
            pipe.is_assign = token.kind == lx.ASSIGN
            self._next_non_space()
            self._declare(pipe, variable)
            if pipe.is_assign:
                self.assigned.update(decl.ident[0] for decl in pipe.decl)
            return False
        if token.kind == lx.CHAR and token.text == ",":
            self._next_non_space()
            self._declare(pipe, variable)
            if context == "range" and len(pipe.decl) < 2:
                if self._peek_non_space().kind in (lx.VARIABLE, lx.RIGHT_DELIM, lx.RIGHT_PAREN):
                    return True
                raise self._error("range can only initialize variables")
            raise self._error(f"too many declarations in {context}")
        if after.kind == lx.SPACE:
            self.pending.append(after)
        self.pending.append(variable)
        return False

    def _declare(self, pipe: nd.PipeNode, variable: Token) -> None:
        pipe.decl.append(nd.VariableNode(variable.pos, [variable.text]))
        self.vars.append(variable.text)

    def _check_pipeline(self, pipe: nd.PipeNode, context: str) -> None:
        if not pipe.cmds:
            raise self._error(f"missing value for {context}")
        for stage, command in enumerate(pipe.cmds[1:], 2):
            if isinstance(command.args[0], _NOT_EXECUTABLE):
                raise self._error(f"non executable command in pipeline stage {stage}")

    def _command(self) -> nd.CommandNode:
        command = nd.CommandNode(self._peek_non_space().pos)
        while True:
            self._peek_non_space()
            operand = self._operand()
            if operand is not None:
                command.args.append(operand)
            token = self._next()
            if token.kind == lx.SPACE:
                continue
            if token.kind in (lx.RIGHT_DELIM, lx.RIGHT_PAREN):
                self.pending.append(token)
            elif token.kind != lx.PIPE:
                raise self._unexpected(token, "operand")
            break
        if not command.args:
            raise self._error("empty command")
        return command

    def _operand(self) -> nd.Node | None:
        node = self._term()
        if node is None or self._peek().kind != lx.FIELD:
            return node
        chain = nd.ChainNode(self._peek().pos, node)
        while self._peek().kind == lx.FIELD:
            chain.fields.append(self._next().text[1:])
        if isinstance(node, nd.FieldNode):
            return nd.FieldNode(chain.pos, node.ident + chain.fields)
        if isinstance(node, nd.VariableNode):
            return nd.VariableNode(chain.pos, node.ident + chain.fields)
        if isinstance(node, _NOT_EXECUTABLE):
            raise self._error(f"unexpected . after term {quote(str(node))}")
        return chain

    def _term(self) -> nd.Node | None:
        token = self._next_non_space()
        kind = token.kind
        if kind == lx.IDENTIFIER:
            if token.text not in self.source.funcs:
                raise self._error(f"function {quote(token.text)} not defined")
            return nd.IdentifierNode(token.pos, token.text)
        if kind == lx.FIELD:
            return nd.FieldNode(token.pos, [token.text[1:]])
        if kind in (lx.STRING, lx.RAW_STRING):
            return nd.StringNode(token.pos, token.text, self._unquoted(token))
        if kind == lx.VARIABLE:
            if token.text not in self.vars:
                raise self._error(f"undefined variable {quote(token.text)}")
            return nd.VariableNode(token.pos, [token.text])
        if kind == lx.DOT:
            return nd.DotNode(token.pos)
        if kind in (lx.NUMBER, lx.CHAR_CONSTANT, lx.COMPLEX):
            try:
                return literals.number(token)
            except GoError as error:
                raise self._error(str(error)) from None
        if kind == lx.LEFT_PAREN:
            return self._parenthesized()
        if kind == lx.BOOL:
            return nd.BoolNode(token.pos, token.text == "true")
        if kind == lx.NIL:
            return nd.NilNode(token.pos)
        self.pending.append(token)
        return None

    def _parenthesized(self) -> nd.Node:
        if self.source.paren_depth >= MAX_PAREN_DEPTH:
            raise self._error("max expression depth exceeded")
        self.source.paren_depth += 1
        pipe = self._pipeline("parenthesized pipeline", lx.RIGHT_PAREN)
        self.source.paren_depth -= 1
        return pipe


def parse_trees(text: str, name: str, delims: tuple[str, str], funcs: Collection[str]) -> dict[str, nd.ListNode]:
    """The trees of all templates in the text, by name; the text itself is under `name`."""
    keywords = frozenset(word for word in lx.KEYWORDS if word not in ("break", "continue") or word not in funcs)
    source = _Source(name, Lexer(text, *delims, keywords).run(), funcs)
    tree = _Tree(source, name)
    if len(source.tokens) > MAX_TOKENS:
        tree.last = source.tokens[MAX_TOKENS]
        raise tree._error("the template is too large")
    try:
        tree.parse_main()
    except RecursionError:
        raise tree._error("blocks are nested too deeply") from None
    return source.trees
