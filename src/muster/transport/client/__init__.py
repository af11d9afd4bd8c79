"""The agent's end: a client with a client's verbs, over a mirror of what the hub sends.

`config` reads the file that leads to a hub, and `dialing` makes a client of it. `connection` is the way to one of the hub's servers
at a time. `subscriptions` keep a `mirror` per kind up to date by one of `streams` after another, which `reading` makes sense of.
`client` has the verbs: it reads from the mirrors (`watching`), writes by events, and asks for `tokens`.
"""
