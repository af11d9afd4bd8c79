"""The hub's word on works before they are stored: what may be in them, and who may have them run as whom."""
