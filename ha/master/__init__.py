"""
The master's end of each connection, and the service that runs them.
"""
