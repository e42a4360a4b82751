"""
The state of a broker set, the commands that change it and the events that say so.
"""
