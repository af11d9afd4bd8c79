"""Random values and YAML texts, from sound documents in every style to token soup; the same ones for the same seed."""

from __future__ import annotations

import json
import random
import re
from typing import Any

WORDS = (
    "", "a", "b", "key", "name", "apiVersion", "v1", "true", "True", "yes", "No", "on", "y", "N", "null", "Null", "~", "<<",
    "=", "0", "1", "-1", "+1", "07", "08", "0o17", "0x1F", "0X1f", "0b101", "0b-1", "-0b11", "0o-7", "1_000", "1__0", "_1",
    "12", "1.5", "1.", ".5", "-.5", "1e3", "1e400", "1e-400", ".inf", "-.Inf", "+.INF", ".nan", ".NaN", "1.2.3", "1:30",
    "12:30:45", "1:99", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
    "-9223372036854775808", "-9223372036854775809", "123456789012345678901234567890", "0x8000000000000000",
    "-0x8000000000000000", "0xffffffffffffffffff", "2001-01-01", "2001-1-1", "2001-13-01", "2001-01-01T10:00:00Z",
    "2001-1-1t1:2:3.45+02:00", "2001-01-01 10:20:30", "2001-01-01 10:20:30.5", "2001-01-01T10:00", "2001-", "20010101",
    "10.0.0.1", "10.0.0.0/8", "a b", "a: b", "a:b", "a:", ":a", ": a", "a #b", "a#b", "#a", "- a", "-a", "--- a", "---",
    "...", "... a", "? a", "?a", "?", "-", ":", "[a]", "{a}", "&a", "*a", "!a", "!!str", "%a", "@a", "`a", "|", ">", "|-",
    "'a'", '"a"', "it's", 'say "hi"', "a, b", "a\\b", "\\", " a", "a ", "a  b", "\ta", "a\tb", "a\t", "a\nb", "a\n", "\na",
    "a\n\nb\n\n", "a\n b\n", " a\nb", "a \nb", "a\nb ", "\n", "\n\n", " ", "  ", "a\n\tb\n", "é", "日本", "😱", "a😱b",
    "\u00a0", "\u2028", "a\u2028b", "a\u2029b\n", "\ufeff", "\ufeffab", "a\ufeff", "\x85", "a\x85b", "\x00", "\x07", "\x1b",
    "a\rb", "a\r\nb", "\ufffe", "\uffff", "\ue000", "{{ .x }}", '{{ "a" | upper }}', "x{{ .y }}", "1{{ 2 }}", "{{- x -}}",
    "$ocm", "k8s.io/name", "app.kubernetes.io/part-of", "a-b", "a_b", "a.b", "a/b", "A", "Z9", "a2", "a10", "a01", "a1b",
    "a1-", "_z", "9", "10", "x" * 127, "y" * 128, "z" * 129, "é" * 65, "w " * 60, "null: x", "y: n", "a\n\n\n", "#",
    "a\n#b\n", "---\na", "a\n---\n", "key:\n  - x\n",
)  # fmt: skip
PIECES = (
    "a", "b", "key", "true", "1", "2.5", "null", "x y", "'q'", '"q"', "'it''s'", '"\\n\\t\\"\\x41\\u00e9\\U0001F631"',
    '"\\', '"', "'", ":", ": ", " :", "- ", "-", "? ", "?", ", ", ",", "[", "]", "{", "}", "&a ", "&b", "*a", "*b", "!",
    "!!str ", "!!int ", "!t ", "!<x> ", "!!binary ", "|", "|\n", "|-\n", "|+\n", ">\n", ">-\n", "|2\n", "|0\n", "|+1\n",
    "# c", " # c\n", "#", "\n", "\n", "\n\n", " ", "  ", "    ", "\t", "---\n", "--- ", "...\n", "%YAML 1.1\n",
    "%YAML 1.2\n", "%TAG ! t:\n", "%X\n", "<<: ", "<<", "\r\n", "\r", "@", "`", "%", "é", "😱", "2001-01-01", "0x1F", "~",
    "\u2028", "\x85", "\\", "%41", "!e!x ", "a: b\n", "- a\n", "  c: d\n", "  - e\n", "k:\n",
)  # fmt: skip
SOUND = (
    "a",
    "word",
    "two words",
    "v1",
    "ConfigMap",
    "1",
    "true",
    "2.5",
    "10.0.0.1",
    "a/b",
    "x-y",
    "null",
    "2001-01-01",
    "0x1F",
    "é",
)
KEYS = (
    *("a", "b", "c", "d", "e", "key", "name", "kind", "spec", "data", "a-b", "k8s.io/x", "x y", '"q k"', "'s k'") * 3,
    "1", "true", "~", "<<", "? z", "2001-01-01",
)  # fmt: skip


_LONG_NUMBER = re.compile("[0-9]{18,}")


class Documents:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def string(self) -> str:
        chosen = self.random
        if chosen.random() < 0.7:
            return chosen.choice(WORDS)
        if chosen.random() < 0.6:
            return "".join(chosen.choice(WORDS) for _ in range(chosen.randint(1, 4)))
        return "".join(chosen.choice("ab1 :#-'\"\n\t.,{}[]\\é_") for _ in range(chosen.randint(1, 12)))

    def key(self) -> str:
        """A key of a map. Numbers beyond an int64 in keys have no order in yaml.v3: it compares what is left of them."""
        return _LONG_NUMBER.sub("77", self.string())

    def value(self, depth: int = 0) -> Any:
        chosen = self.random
        roll = chosen.random() + depth * 0.12
        if roll < 0.3:
            return {self.key(): self.value(depth + 1) for _ in range(chosen.randint(0, 5))}
        if roll < 0.5:
            return [self.value(depth + 1) for _ in range(chosen.randint(0, 4))]
        if roll < 0.62:
            return chosen.choice(
                (0, 1, -1, 7, 2**53 + 1, 2**63, -(2**63), 1.0, 0.5, 1e6, 1e20, 1e21, 1e-7, 123456.789, -0.0, 2**64)
            )
        if roll < 0.68:
            return chosen.choice((True, False, None))
        return self.string()

    def json(self) -> str:
        """A JSON text, as Go or Python would write it."""
        text = json.dumps(self.value(), ensure_ascii=self.random.random() < 0.2, separators=(",", ":"))
        return text if self.random.random() < 0.95 else self.mutated(text)

    # Texts

    def text(self) -> str:
        chosen = self.random
        roll = chosen.random()
        if roll < 0.15:
            return "".join(chosen.choice(PIECES) for _ in range(chosen.randint(1, 12)))
        if roll < 0.3:
            return self.policy_like()
        text = self.block(0, 0)
        if roll < 0.65:
            return text
        for _ in range(chosen.randint(1, 3)):
            text = self.mutated(text)
        return text

    def mutated(self, text: str) -> str:
        chosen = self.random
        at = chosen.randint(0, len(text))
        roll = chosen.random()
        if roll < 0.4:
            return text[:at] + chosen.choice(PIECES) + text[at:]
        if roll < 0.7:
            return text[:at] + text[at + chosen.randint(1, 3) :]
        if roll < 0.85:
            return text[:at] + chosen.choice("\n :-#'\"[]{},?|>&*!\t") + text[at + 1 :]
        end = chosen.randint(at, min(len(text), at + 20))
        return text[:at] + text[at:end] * 2 + text[end:]

    def policy_like(self) -> str:
        """What a resolved policy looks like: what stood in it was written by the emitter, what a template gave was not."""
        chosen = self.random
        lines = []
        for _ in range(chosen.randint(1, 6)):
            given = self.string()
            style = chosen.choice(("plain", "plain", "single", "single", "double", "literal"))
            key = f"{chosen.choice(('a', 'b', 'c', 'd', 'e', 'f', 'spec', 'data'))}{chosen.randint(0, 9)}"
            pad = " " * chosen.choice((0, 0, 0, 2, 2, 4))
            start = f"{pad}{chosen.choice(('', '', '', '- '))}{key}:"
            if style == "literal":
                lines.append(f"{start} |{chosen.choice(('', '-', '+'))}\n{pad}  {given}")
            elif style == "plain":
                lines.append(f"{start}{chosen.choice((' ', ' ', '  ', ''))}{given}")
            else:
                mark = "'" if style == "single" else '"'
                lines.append(f"{start} {mark}{given}{mark}")
        return "\n".join(lines) + chosen.choice(("\n", "\n", ""))

    def block(self, indent: int, depth: int) -> str:
        """A node in block style that starts on a line of its own."""
        chosen = self.random
        pad = " " * indent
        roll = chosen.random() + depth * 0.1
        out = []
        if roll < 0.5:
            for _ in range(chosen.randint(1, 4)):
                key = self.properties() + chosen.choice(KEYS)
                out.append(f"{pad}{key}{chosen.choice((':', ':', ':', ' :'))}{self.after(indent, depth)}")
        elif roll < 0.8:
            for _ in range(chosen.randint(1, 4)):
                if chosen.random() < 0.3 and depth < 4:
                    out.append(pad + "- " + self.block(indent + 2, depth + 1).lstrip(" "))
                else:
                    out.append(f"{pad}-{self.after(indent, depth)}")
        else:
            out.append(f"{pad}{self.inline(depth)}{self.end()}")
        if chosen.random() < 0.1:
            out.insert(
                chosen.randint(0, len(out)), chosen.choice(("\n", f"{pad}# comment\n", "# comment\n", "  \n", f"{pad}  # deep\n"))
            )
        return "".join(out)

    def after(self, indent: int, depth: int) -> str:
        """What follows a key or a dash."""
        chosen = self.random
        roll = chosen.random()
        if roll < 0.3 and depth < 4:
            return self.end() + self.block(indent + chosen.choice((0, 1, 2, 2, 2, 4)), depth + 1)
        if roll < 0.42:
            return " " + self.block_scalar(indent)
        if roll < 0.48:
            return self.end()
        return f"{chosen.choice((' ', ' ', ' ', '  ', chr(9)))}{self.properties()}{self.inline(depth)}{self.end()}"

    def end(self) -> str:
        return self.random.choice(("\n",) * 8 + (" \n", " # c\n", "\n\n", "\r\n", "\n# c\n"))

    def properties(self) -> str:
        roll = self.random.random()
        return (
            ""
            if roll < 0.88
            else self.random.choice(("&a ", "&b ", "!!str ", "!t ", "! ", "!!int ", "&a !!map ", "!!float ", "!!binary "))
        )

    def block_scalar(self, indent: int) -> str:
        chosen = self.random
        pad = " " * (indent + chosen.choice((1, 2, 2, 2, 4)))
        header = (
            chosen.choice("|||>")
            + chosen.choice(("", "", "-", "+", "2", "1-", "+2"))
            + chosen.choice(("\n",) * 6 + (" \n", " # c\n"))
        )
        lines = (
            chosen.choice(("text", "more text", "", "", "  deep", "# no comment", "- x", "a: b", "\ttab", "end "))
            for _ in range(chosen.randint(0, 4))
        )
        return header + "".join((pad + line if line else chosen.choice(("", "", pad, pad + " "))) + "\n" for line in lines)

    def inline(self, depth: int) -> str:
        chosen = self.random
        roll = chosen.random()
        if roll < 0.3:
            return chosen.choice(SOUND)
        if roll < 0.4:
            return chosen.choice(WORDS)
        if roll < 0.5:
            return "'" + chosen.choice(WORDS).replace("'", "''") + "'"
        if roll < 0.6:
            return json.dumps(chosen.choice(WORDS), ensure_ascii=chosen.random() < 0.5)
        if roll < 0.66:
            return chosen.choice(("*a", "*b", "*c"))
        if roll < 0.72:
            return f"{chosen.choice(('word', 'two words', 'x'))}\n{' ' * chosen.randint(0, 4)}continued"
        if depth > 4:
            return "x"
        if roll < 0.86:
            return (
                "[" + ",".join(self.flow_item(depth) for _ in range(chosen.randint(0, 3))) + chosen.choice(("]", "]", ",]", " ]"))
            )
        return "{" + ", ".join(self.flow_entry(depth) for _ in range(chosen.randint(0, 3))) + chosen.choice(("}", "}", ",}", " }"))

    def flow_item(self, depth: int) -> str:
        return self.random.choice(("", " ", "\n  ")) + (
            self.inline(depth + 2) if self.random.random() < 0.8 else self.flow_entry(depth)
        )

    def flow_entry(self, depth: int) -> str:
        chosen = self.random
        key = chosen.choice(KEYS)
        return f"{key}{chosen.choice((': ', ': ', ':', ' : ', ''))}{self.inline(depth + 2)}"
