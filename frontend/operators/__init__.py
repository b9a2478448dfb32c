"""Paddle's operators: names, slots, attributes, and the function that says what each of them does.

One entry per operator, in the file of its family, serves all who meet Paddle's operators: PIR files, ProgramDesc files and
`Block.append_op`. `definition.py` says what an entry is, `table.py` looks one up and applies it, `arguments.py` has the kinds of arguments.
"""
