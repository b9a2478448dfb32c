"""What networks become at kernel level on several machines, as hashes and as lists of the builders that made their kernels.

    python -m tests.goldens              # compares with tests/goldens/kernels.csv, and names what differs
    python -m tests.goldens --write      # writes the file anew
    python -m tests.goldens --text resnet18 x86-64-avx512    # the kernels themselves

A change that moves code and changes none leaves the file as it is.
"""
