"""One set of cases, two servers: what kube-apiserver answers is what the embedded server must answer.

A case (`dsl.py`) is data: requests, watches and kubectl commands in a namespace of its own. `runner.py` plays it on a
control plane and writes down the answers; `masking.py` replaces what must differ (identities, revisions, times) by
stable names; `golden.py` keeps the real server's answers so that everyday runs need no Go. Accepted differences are
named in docs/embedded.md and referred to by the step that has them.

    python -m tests.differential list
    python -m tests.differential show CASE [--on kube|embedded]
    python -m tests.differential diff [CASE-SUBSTRING]       embedded against the golden answers
    python -m tests.differential record [CASE-SUBSTRING]     golden answers anew from a real kube-apiserver
"""
