"""What is known of compiled code beside the code itself. `specs.py` has its parts, `manifest.py` all of them together, `reading.py` and
`checks.py` what a file may say, and `sizes.py` reads sizes.
"""
