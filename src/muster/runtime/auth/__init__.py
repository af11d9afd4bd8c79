"""Who somebody is and what they may do, by the word of the cluster."""
