"""For people who look at the compiler: the first wrong op, small test cases, time by kernel, memory."""
