"""The functions that kernels and their launchers call, and the ``runtime`` module of each.

``vecmath`` has polynomials that LLVM vectorizes, in float64 and, with an f at the end of the name,
in float32. ``kernels`` has NumPy's semantics on scalars and small arrays as plain functions, in
the files named here; for some of them ``kernels/llvm_numbers.py`` has LLVM's instructions, too.
``linear_systems`` has what launchers call. Nothing else lists them: a test holds the homes to it.

    >>> home_of("expf"), home_of("checked_index"), home_of("np")
    ('vecmath', 'kernels', None)
"""

from __future__ import annotations

from calque.transpiler.codegen.text.scalar_functions import SCALAR_FUNCTIONS, VECTOR

# Functions of real numbers, by the names in a primitive's ``scalar``.
VECTORIZED = [name for name, f in SCALAR_FUNCTIONS.items() if f.numba == VECTOR]
# Powers that are a root and products, by their exponent.
HALF_POWERS = {
    -0.5: "pow_minus_half",
    1.5: "pow_three_halves",
    -1.5: "pow_minus_three_halves",
    2.5: "pow_five_halves",
    -2.5: "pow_minus_five_halves",
}
# Random numbers of a key and a position; with an f at the end, of half as many bits.
DRAWN = ("random_bits", "random_uniform", "random_normal", "random_exponential")
# NumPy's functions for which complex numbers have functions of other names.
OF_COMPLEX = [
    f.value.removeprefix("np.").removesuffix("(x)")
    for f in SCALAR_FUNCTIONS.values()
    if "numba" in f.of_complex
]

# The files of ``runtime/kernels``, and the functions that each defines for kernels.
FILES: dict[str, tuple[str, ...]] = {
    "integer_functions": (
        *("wrapped_sum", "wrapped_difference", "wrapped_product", "wrapped_quotient"),
        *("integer_quotient", "integer_power", "integer_fmod", "lshift", "rshift"),
        *("int64_of", "int32_of", "uint64_of", "python_int", "python_size"),
        *("whole_exponent", "shift_count", "power_base", "quotient", "remainder"),
        *("checked_index", "bounded", "bounded_unsigned"),
    ),
    "kernel_functions": (
        *("maximum", "minimum", "clipped", "heaviside", "sign", "fmod", "divide"),
        *("searchsorted_left", "searchsorted_right"),
        *("running_sum", "running_max", "running_min"),
        *("array_max", "array_min", "array_median", "array_quantile"),
    ),
    "gamma_functions": ("digamma",),
    "parameter_slopes": (
        *("shape_slope_of_gamma", "first_slope_of_betainc", "second_slope_of_betainc"),
    ),
    "scipy_functions": ("in_kernels",),
    "complex_functions": tuple(f"complex_{n}" for n in OF_COMPLEX),
    "complex_power_functions": (
        *("complex_divide", "complex_reciprocal", "complex_power", "complex_whole_power"),
    ),
    "matrix_functions": (
        *("solve", "matrix_inverse", "determinant", "complex_determinant", "sign_and_logdet"),
        *("complex_cholesky_factor", "complex_sign_and_logdet"),
        *("cholesky_factor", "checked_finite", "checked_finite_array"),
    ),
    "kernel_errors": ("KernelError", "forms_errors"),
    "decorator": ("kernel", "kernel_part", "vrange"),
}
# Functions that may raise an error.
REFUSING = frozenset(
    """bounded bounded_unsigned checked_index divide quotient integer_quotient remainder
    python_int python_size whole_exponent shift_count power_base
    array_max array_min array_quantile solve matrix_inverse cholesky_factor
    complex_cholesky_factor
    checked_finite checked_finite_array""".split()
)
FILE_OF = {name: file for file, names in FILES.items() for name in names}
LAUNCHER_FUNCTIONS = frozenset(["solve_triangular"])
_IN_BOTH = (*VECTORIZED, "pow", *HALF_POWERS.values(), *DRAWN)
HOMES: dict[str, frozenset[str]] = {
    "linear_systems": LAUNCHER_FUNCTIONS,
    "kernels": frozenset(FILE_OF),
    "vecmath": frozenset([*_IN_BOTH, *(f"{name}f" for name in _IN_BOTH)]),
}


def home_of(name: str) -> str | None:
    """The module of ``runtime`` from which a kernel's function is imported, or None."""
    return next((home for home, names in HOMES.items() if name in names), None)
