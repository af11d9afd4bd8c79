"""The cases, one module per subject. A module offers `CASES`; adding one here is all it takes to add a group."""
