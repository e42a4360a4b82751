"""
RocketMQ's remoting protocol: frames, headers, bodies, clients and servers.
"""
