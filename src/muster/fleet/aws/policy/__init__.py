"""Policies: `document.py` parses and validates them, `conditions.py` has the operators, `evaluation.py` decides.

Pure functions of texts and values, without accounts and requests.
"""
