"""
Network addresses, the one receive buffer of a server, the event loop of a service.
"""
