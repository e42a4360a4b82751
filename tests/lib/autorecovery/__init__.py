"""
Peers that speak RocketMQ's protocol, record stores, clocks.
"""
