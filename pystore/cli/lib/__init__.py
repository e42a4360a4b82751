"""
What the commands share: output, progress, exit codes, sizes.
"""
