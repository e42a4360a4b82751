"""
Frames of both replication protocols as bytes. Pure.
"""
