"""Pages on which a derivative is reviewed: the user's functions beside what is generated of them.

In come a transformed function and its arguments; out comes the text of an HTML file. Read
``reviews`` (what a page shows), then ``html_pages`` (its text) and ``user_files``.
"""
