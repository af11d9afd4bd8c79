"""Commands of the local fleet: `muster up`, `down`, `status`, `logs`, `cluster add|remove`."""
