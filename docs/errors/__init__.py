"""The pages of the error codes. The packaging takes this folder along as `polyreme.error_pages`, so that `polyreme explain` finds it
anywhere.
"""
