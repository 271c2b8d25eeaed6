"""What all printed text shares: names, folding, layout, the writers of expressions and statements.

In comes a ``printed_program``; out come syntax trees, and lines that are not too long. Read
``folding`` and ``coalesce``, ``names``, then ``expression_writer`` and ``statement_writer``;
``spelling`` fills templates, ``layout`` breaks lines.
"""
