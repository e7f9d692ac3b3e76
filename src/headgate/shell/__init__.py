"""`headgate shell`: SQL with instant answers, in a terminal, from a pipe or from `-c`.

Decides what a line of the person means, what the session remembers, how rows and errors look, and
which columns a file has. Queries run in a process of their own (`headgate.warm`): whatever ends
there, the prompt stays. Imports no Spark. Read `interpreter.py` first, then `session.py` (what is
declared) and `prompt.py` (the keys).
"""
