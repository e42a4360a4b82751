"""
The demo: real input, a killed writer, and no lost record.
"""
