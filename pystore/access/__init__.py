"""
Who may send which request: users, their roles, and the gate of a server.

Source: docs/security.md.
"""
