"""
A controller's requests and answers as RocketMQ's headers and bodies, with pystore's
extensions.
"""
