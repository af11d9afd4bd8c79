"""The parts of Go's standard library that only templates use: `fmt`, `time`, `regexp`, `path`, `encoding/json`.

Each module has the name of the Go package whose behaviour it reproduces, including error texts. What other packages need too
(quoting, numbers, durations, URLs, versions) is in `machinery.golang`.
"""
