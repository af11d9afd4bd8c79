"""The placement controller on a hub: it feeds `scheduling.schedule` from caches, and writes down what that answers.

`manager` puts the process together, `controller` makes the passes. `inventory` is the world by caches, with `decision_index` and
`interests`; `outcome` and `writing` say, as pure functions, what a choice looks like in objects and by which writes it is reached,
`decision_writer` carries them out. `debug_server` answers who would be chosen, `measurements` counts, `install` gives rights.
"""
