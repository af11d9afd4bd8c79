"""The work agent: applies the ManifestWorks of one cluster to it.

A pass over one work (`reconcile`) parses it (`apply_plan`), checks whether its executor is allowed (`executor/`), applies what is
missing or has drifted (`applying/`), and reports the status (`reporting/`). Applied objects are watched by a few shared watches
(`runtime.cache.dynamic`), so a pass over an unchanged work costs no request, and drift is noticed at once. The parts depend on
each other by `interfaces` only.
"""
