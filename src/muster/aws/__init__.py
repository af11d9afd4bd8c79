"""The parts of AWS that registration needs: ARNs, role names, policies, tokens, and a client of its API.

It is independent of Kubernetes and of the process: variables and files are parameters (`process_env.py`), because the pods of a
local fleet are tasks of one process with different identities.

`arns.py` parses names, `role_names.py` computes those that two clusters share, `policies.py` has the documents; none of these needs
a library. `interfaces.py` is the API for callers, `errors.py` its errors; `client.py` implements it with botocore, which is part of
the extra `muster[aws]`.
"""
