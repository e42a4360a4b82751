"""
Decisions: a command, the state and the facts in; events and a reply out.
"""
