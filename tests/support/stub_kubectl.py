"""A program in kubectl's stead: tells in a line of JSON what it was given, and fails or hangs where it is asked to.

Its last argument may be `fail`, which ends it with 3 on clusters whose name begins with `bad`, or `hang`, which never ends there.
"""

from __future__ import annotations

import sys
from pathlib import Path

PROGRAM = """#!{python}
import json, os, re, stat, sys, time
path = os.environ["KUBECONFIG"]
text = open(path).read()
cluster = re.search(r"clustergateways/([^/]+)/proxy", text)[1]
words = sys.argv[1:]
given = sys.stdin.read() if "-" in words else ""
mode = stat.S_IMODE(os.stat(path).st_mode)
if words[-1:] == ["hang"] and cluster.startswith("bad"):
    time.sleep(600)
print(json.dumps({{"words": words, "cluster": cluster, "stdin": given, "mode": mode, "path": path, "kubeconfig": text}}))
if words[-1:] == ["fail"] and cluster.startswith("bad"):
    print("no such thing", file=sys.stderr)
    sys.exit(3)
"""


def write_stub(directory: Path) -> Path:
    """The directory to put into PATH."""
    directory.mkdir(exist_ok=True)
    program = directory / "kubectl"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    return directory
