"""Policies: `document.py` reads and refuses them, `conditions.py` has the operators, `evaluation.py` decides.

Pure functions of texts and values: they know neither accounts nor requests.
"""
