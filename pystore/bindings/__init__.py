"""
The seam to the C core: cffi calls, status codes to exceptions, rows of the core.
"""
