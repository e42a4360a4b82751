"""
A crash-safe append-only commit log, byte-compatible with RocketMQ 5.
"""
