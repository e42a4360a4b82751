"""
A controller's requests and answers as RocketMQ's headers and bodies, and what pystore
adds.
"""
