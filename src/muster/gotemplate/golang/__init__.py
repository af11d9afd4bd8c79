"""The parts of Go's standard library that templates can see: `fmt`, `strconv`, `time`, `net/url`, `encoding/json`…

Each module is named after the Go package whose observable behaviour it keeps, error texts included.
"""
