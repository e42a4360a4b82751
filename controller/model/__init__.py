"""
The state of a broker set, the commands for it, and the events that change it.
"""
