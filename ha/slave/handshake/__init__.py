"""
How a link begins: the slave greets, learns the master's epochs, and finds where the
two logs meet.
"""
