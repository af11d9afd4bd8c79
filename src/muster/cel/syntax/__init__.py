"""The lexer, the parser and the syntax tree."""
