"""Measurements side by side with the programs Muster can stand in for, on one machine, in one run: `python -m bench`."""
