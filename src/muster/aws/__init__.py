"""AWS as far as registration needs it: what clusters and roles are called there, the policies they carry, tokens, and its API.

A ground-floor room: it knows nothing of Kubernetes, and nothing of the process around it. Variables and files come in as values
(`surroundings.py`), because the pods of a local fleet are tasks of one process and are different identities all the same.

`arns.py` reads names, `naming.py` makes those that two clusters share, `policies.py` has the documents; none of these needs a
library. `interfaces.py` is the API that others ask, `errors.py` what it may answer; `client.py` asks AWS by botocore, which comes
with the extra `muster[aws]`.
"""
