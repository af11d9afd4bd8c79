"""The nodes of a YAML document. Follows yaml.v3's parser, a port of libyaml's, and what its decoder builds of the events.

Tokens are read in the same order as there, so that of several errors the same one is reported. Nesting is bounded.
"""

from __future__ import annotations

from typing import Final

from muster.gotemplate.golang.yaml.errors import YAMLError
from muster.gotemplate.golang.yaml.scalars import MAP, MERGE, SEQ, STR, resolve, short_tag
from muster.gotemplate.golang.yaml.scanner import Scanner
from muster.gotemplate.golang.yaml.tokens import Kind, ScanError, Token
from muster.gotemplate.limits import charge

MAX_DEPTH: Final = 200
_LOOKAHEAD: Final = 4
_TAG_PREFIXES: Final = {"!": "!", "!!": "tag:yaml.org,2002:"}
_DIRECTIVES: Final = (Kind.VERSION_DIRECTIVE, Kind.TAG_DIRECTIVE)
_NO_BLOCK_VALUE: Final = (Kind.KEY, Kind.VALUE, Kind.BLOCK_END)
_NO_INDENTLESS_ITEM: Final = (Kind.BLOCK_ENTRY, Kind.KEY, Kind.VALUE, Kind.BLOCK_END)
_NO_DOCUMENT_CONTENT: Final = (*_DIRECTIVES, Kind.DOCUMENT_START, Kind.DOCUMENT_END, Kind.STREAM_END)

SCALAR: Final = "scalar"
SEQUENCE: Final = "sequence"
MAPPING: Final = "mapping"
ALIAS: Final = "alias"


class Node:
    __slots__ = ("content", "kind", "line", "tag", "target", "value")

    def __init__(self, kind: str, line: int, tag: str = "", value: str = "") -> None:
        self.kind = kind
        self.line = line
        self.tag = tag
        """In its short form; what a scalar without one resolves to."""
        self.value = value
        """The text of a scalar, or the anchor that an alias names."""
        self.content: list[Node] = []
        """Items of a sequence; keys and values of a mapping in turns."""
        self.target: Node | None = None
        """What an alias stands for."""


class Parser:
    def __init__(self, text: str) -> None:
        self._scanner = Scanner(text)
        self._anchors: dict[str, Node] = {}
        self._tags: dict[str, str] = {}
        self._depth = 0

    def has_read(self, end: int) -> bool:
        """Whether what follows this place, or the few characters that a scanner looks ahead, has been needed."""
        return self._scanner.at + _LOOKAHEAD > end

    def is_at_end(self) -> bool:
        """Whether nothing follows the document that was read."""
        return self._scanner.peek().kind == Kind.STREAM_END

    def document(self) -> Node | None:
        """The first document's node, or None where there is none."""
        scanner = self._scanner
        scanner.peek()
        scanner.skip()
        token = scanner.peek()
        if token.kind == Kind.STREAM_END:
            return None
        explicit = token.kind in _DIRECTIVES or token.kind == Kind.DOCUMENT_START
        token = self._read_directives()
        if explicit:
            if token.kind != Kind.DOCUMENT_START:
                raise ScanError("did not find expected <document start>", 0, token.line)
            scanner.skip()
            token = scanner.peek()
        if explicit and token.kind in _NO_DOCUMENT_CONTENT:
            node = _empty(token.line)
        else:
            node = self._node(block=True)
        scanner.peek()
        return node

    def _read_directives(self) -> Token:
        scanner = self._scanner
        token = scanner.peek()
        version = ""
        while token.kind in _DIRECTIVES:
            if token.kind == Kind.VERSION_DIRECTIVE:
                if version:
                    raise ScanError("found duplicate %YAML directive", 0, token.line)
                version = token.value
                if version != "1.1":
                    raise ScanError("found incompatible YAML document", 0, token.line)
            else:
                if token.value in self._tags:
                    raise ScanError("found duplicate %TAG directive", 0, token.line)
                self._tags[token.value] = token.suffix
            scanner.skip()
            token = scanner.peek()
        self._tags = {**_TAG_PREFIXES, **self._tags}
        return token

    def _node(self, *, block: bool, indentless: bool = False) -> Node:
        charge(1)
        scanner = self._scanner
        token = scanner.peek()
        if token.kind == Kind.ALIAS:
            return self._alias(token)
        start = token.line
        anchor = tag = ""
        if token.kind in (Kind.ANCHOR, Kind.TAG):
            anchor, tag, token = self._properties(token)
        kind = token.kind
        if kind == Kind.SCALAR:
            scanner.skip()
            return self._anchored(anchor, _scalar(start, tag, token))
        if indentless and kind == Kind.BLOCK_ENTRY:
            return self._indentless_sequence(self._open(SEQUENCE, start, anchor, tag))
        if kind == Kind.FLOW_SEQUENCE_START:
            return self._flow_sequence(self._open(SEQUENCE, start, anchor, tag))
        if kind == Kind.FLOW_MAPPING_START:
            return self._flow_mapping(self._open(MAPPING, start, anchor, tag))
        if block and kind == Kind.BLOCK_SEQUENCE_START:
            return self._block_sequence(self._open(SEQUENCE, start, anchor, tag))
        if block and kind == Kind.BLOCK_MAPPING_START:
            return self._block_mapping(self._open(MAPPING, start, anchor, tag))
        if anchor or tag:
            return self._anchored(anchor, _scalar(start, tag, Token(Kind.SCALAR, start, plain=True)))
        raise ScanError("did not find expected node content", start, token.line)

    def _alias(self, token: Token) -> Node:
        target = self._anchors.get(token.value)
        if target is None:
            raise YAMLError(f"yaml: unknown anchor '{token.value}' referenced")
        self._scanner.skip()
        node = Node(ALIAS, token.line + 1, value=token.value)
        node.target = target
        return node

    def _properties(self, token: Token) -> tuple[str, str, Token]:
        """An anchor and a tag, in either order, and the token after them."""
        scanner = self._scanner
        start = token.line
        anchor = ""
        tagged: Token | None = None
        first = token.kind
        for kind in (first, Kind.TAG if first == Kind.ANCHOR else Kind.ANCHOR):
            if token.kind != kind:
                break
            if kind == Kind.ANCHOR:
                anchor = token.value
            else:
                tagged = token
            scanner.skip()
            token = scanner.peek()
        if tagged is None:
            return anchor, "", token
        if not tagged.value:
            return anchor, tagged.suffix, token
        prefix = self._tags.get(tagged.value)
        if prefix is None or not prefix + tagged.suffix:
            raise ScanError("found undefined tag handle", start, tagged.line)
        return anchor, prefix + tagged.suffix, token

    def _open(self, kind: str, line: int, anchor: str, tag: str) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise YAMLError(f"yaml: exceeded max depth of {MAX_DEPTH}")
        default = SEQ if kind == SEQUENCE else MAP
        return self._anchored(anchor, Node(kind, line + 1, short_tag(tag) if tag not in ("", "!") else default))

    def _anchored(self, anchor: str, node: Node) -> Node:
        if anchor:
            self._anchors[anchor] = node
        return node

    # Collections

    def _block_sequence(self, node: Node) -> Node:
        scanner = self._scanner
        context = scanner.peek().line
        scanner.skip()
        while (token := scanner.peek()).kind == Kind.BLOCK_ENTRY:
            scanner.skip()
            following = scanner.peek()
            if following.kind in (Kind.BLOCK_ENTRY, Kind.BLOCK_END):
                node.content.append(_empty(token.end_line))
            else:
                node.content.append(self._node(block=True))
        if token.kind != Kind.BLOCK_END:
            raise ScanError("did not find expected '-' indicator", context, token.line)
        scanner.skip()
        self._depth -= 1
        return node

    def _indentless_sequence(self, node: Node) -> Node:
        scanner = self._scanner
        while (token := scanner.peek()).kind == Kind.BLOCK_ENTRY:
            scanner.skip()
            following = scanner.peek()
            if following.kind in _NO_INDENTLESS_ITEM:
                node.content.append(_empty(token.end_line))
            else:
                node.content.append(self._node(block=True))
        self._depth -= 1
        return node

    def _block_mapping(self, node: Node) -> Node:
        scanner = self._scanner
        context = scanner.peek().line
        scanner.skip()
        while (token := scanner.peek()).kind == Kind.KEY:
            scanner.skip()
            following = scanner.peek()
            if following.kind in _NO_BLOCK_VALUE:
                node.content.append(_empty(token.end_line))
            else:
                node.content.append(self._node(block=True, indentless=True))
            node.content.append(self._block_value())
        if token.kind != Kind.BLOCK_END:
            raise ScanError("did not find expected key", context, token.line)
        scanner.skip()
        self._depth -= 1
        return node

    def _block_value(self) -> Node:
        scanner = self._scanner
        token = scanner.peek()
        if token.kind != Kind.VALUE:
            return _empty(token.line)
        scanner.skip()
        following = scanner.peek()
        if following.kind in _NO_BLOCK_VALUE:
            return _empty(token.end_line)
        return self._node(block=True, indentless=True)

    def _flow_sequence(self, node: Node) -> Node:
        scanner = self._scanner
        context = scanner.peek().line
        scanner.skip()
        first = True
        while (token := scanner.peek()).kind != Kind.FLOW_SEQUENCE_END:
            if not first:
                if token.kind != Kind.FLOW_ENTRY:
                    raise ScanError("did not find expected ',' or ']'", context, token.line)
                scanner.skip()
                token = scanner.peek()
            first = False
            if token.kind == Kind.KEY:
                node.content.append(self._flow_pair(token))
            elif token.kind != Kind.FLOW_SEQUENCE_END:
                node.content.append(self._node(block=False))
        scanner.skip()
        self._depth -= 1
        return node

    def _flow_pair(self, key: Token) -> Node:
        """A mapping of one key within a sequence: `[a: b]`."""
        scanner = self._scanner
        node = Node(MAPPING, key.line + 1, MAP)
        scanner.skip()
        token = scanner.peek()
        if token.kind in (Kind.VALUE, Kind.FLOW_ENTRY, Kind.FLOW_SEQUENCE_END):
            # yaml.v3 goes over the token here, whatever it is.
            scanner.skip()
            node.content.append(_empty(token.end_line))
        else:
            node.content.append(self._node(block=False))
        token = scanner.peek()
        if token.kind == Kind.VALUE:
            scanner.skip()
            following = scanner.peek()
            if following.kind not in (Kind.FLOW_ENTRY, Kind.FLOW_SEQUENCE_END):
                node.content.append(self._node(block=False))
                scanner.peek()
                return node
        node.content.append(_empty(token.line))
        scanner.peek()
        return node

    def _flow_mapping(self, node: Node) -> Node:
        scanner = self._scanner
        context = scanner.peek().line
        scanner.skip()
        first = True
        while (token := scanner.peek()).kind != Kind.FLOW_MAPPING_END:
            if not first:
                if token.kind != Kind.FLOW_ENTRY:
                    raise ScanError("did not find expected ',' or '}'", context, token.line)
                scanner.skip()
                token = scanner.peek()
            first = False
            if token.kind == Kind.KEY:
                self._flow_entry(node)
            elif token.kind != Kind.FLOW_MAPPING_END:
                node.content.append(self._node(block=False))
                node.content.append(_empty(scanner.peek().line))
        scanner.skip()
        self._depth -= 1
        return node

    def _flow_entry(self, node: Node) -> None:
        scanner = self._scanner
        scanner.skip()
        token = scanner.peek()
        if token.kind in (Kind.VALUE, Kind.FLOW_ENTRY, Kind.FLOW_MAPPING_END):
            node.content.append(_empty(token.line))
        else:
            node.content.append(self._node(block=False))
        token = scanner.peek()
        if token.kind == Kind.VALUE:
            scanner.skip()
            token = scanner.peek()
            if token.kind not in (Kind.FLOW_ENTRY, Kind.FLOW_MAPPING_END):
                node.content.append(self._node(block=False))
                return
        node.content.append(_empty(token.line))


def _empty(line: int) -> Node:
    return Node(SCALAR, line + 1, "!!null")


def _scalar(line: int, tag: str, token: Token) -> Node:
    if tag not in ("", "!"):
        found = short_tag(tag)
    elif not token.plain:
        found = STR
    elif token.value == "<<":
        found = MERGE
    else:
        found = resolve("", token.value)[0]
    return Node(SCALAR, line + 1, found, token.value)
