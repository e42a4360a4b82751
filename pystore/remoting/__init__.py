"""
RocketMQ's remoting protocol: frames, headers, bodies, and who speaks them.
"""
