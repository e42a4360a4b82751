"""
Shared by the commands: output, progress, exit codes, sizes.
"""
