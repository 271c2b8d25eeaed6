"""Functions that stay functions: parts of a program that repeat become one function each.

In comes a program in which all calls are recorded in place; out go the program with calls, and the
functions that it calls, each a program of its own. ``repeats`` finds sequences of statements that
occur several times; ``sharing_policy`` says which of them are worth a function. Read
``shared_functions`` first.
"""
