"""The parts of Go's standard library that only templates can see: `fmt`, `time`, `regexp`, `path`, `encoding/json`.

Each module is named after the Go package whose observable behaviour it keeps, error texts included. What other rooms need too
(quoting, numbers, durations, URLs, versions) is in `machinery.golang`.
"""
