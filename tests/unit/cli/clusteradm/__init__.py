"""clusteradm"""
