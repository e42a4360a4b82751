"""
The slave's end of a connection: what it hears, what it does to its log.
"""
