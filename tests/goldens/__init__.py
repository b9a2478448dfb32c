"""What networks become at kernel level on several machines: who takes each root and what is chosen, and the kernels as hashes.

    python -m tests.goldens              # compares with schedules/ and kernels.csv of this folder, and names what differs
    python -m tests.goldens --write      # writes the files anew
    python -m tests.goldens --text resnet18 x86-64-avx512    # the kernels themselves

A change that moves code and changes none leaves the files as they are.
"""
