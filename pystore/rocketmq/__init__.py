"""
RocketMQ's own small files: checkpoint, abort, broker identity, index.
"""
