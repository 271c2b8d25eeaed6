"""The printer that all targets share: names, folding, layout, writers of syntax trees.

In comes a ``printed_program``; out come syntax trees, and lines of limited width. Read
``folding`` and ``coalesce``, ``names``, then ``expression_writer`` and ``statement_writer``;
``spelling`` fills templates, ``layout`` breaks lines.
"""
