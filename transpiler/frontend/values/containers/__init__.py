"""Kinds of values that hold others, a file each: the questions of snapshots, branches and loops.

In comes a value with what it held at some moments; out comes what two paths make of it, how a loop
carries it, and how it is put back. Read ``container_kinds``, which says what a kind answers; a new
kind is a class under ``@kind`` in a file of its own, which ``heap`` imports.
"""
