"""
Network addresses and the one receive buffer of a server.
"""
