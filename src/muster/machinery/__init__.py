"""The ground of the house: what every room may need and none owns. It imports nothing above itself.

Names of things (`objects`), who makes a request (`authentication`), what they want and what an authorizer says
(`authorization`), time and chance (`clock`, `backoff`), the work queue, counters (`metrics`), logs and what may be
printed, files that others must not read, and the boundary of a pod (`confinement`).
"""
