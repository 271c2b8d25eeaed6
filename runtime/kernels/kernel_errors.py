"""Errors of kernels whose text has run-time values: the kernel leaves, and Python makes them."""

import functools


class KernelError(Exception):
    """A kernel's error: the name of the function that makes it, and the values for its text."""


def forms_errors(*makers):
    """Let functions make the errors of a kernel, of the values that it leaves with."""
    by_name = {maker.__name__: maker for maker in makers}

    def decorate(kernel):
        @functools.wraps(kernel, updated=())
        def launch(*args):
            try:
                return kernel(*args)
            except KernelError as error:
                maker, *values = error.args
                made = by_name[maker](*values).with_traceback(error.__traceback__)
            raise made

        return launch

    return decorate
