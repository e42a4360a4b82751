"""
Replication: a master and its slaves hold the same bytes, and know who has what.
"""
