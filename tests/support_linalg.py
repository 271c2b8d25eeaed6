"""The examples of ``scipy.linalg`` in docs/support.md that need more than ``x``."""

from __future__ import annotations

_SQUARE = "x @ x.T + np.eye(3)"
_OF_SQUARES = """cosm coshm eig eigvals hessenberg logm pinvh schur signm sinhm sinm sqrtm tanhm
tanm"""
_BANDS = "np.stack([0.1 * x[0], 1.0 + x[1]])"
_OF_VECTORS = "circulant companion fiedler hankel"
EXAMPLES = {
    **{name: f"linalg.{name}({_SQUARE})" for name in _OF_SQUARES.split()},
    **{name: f"linalg.{name}(x[0])" for name in _OF_VECTORS.split()},
    "cho_solve_banded": f"linalg.cho_solve_banded(({_BANDS}, False), x[2])",
    "cholesky_banded": f"linalg.cholesky_banded({_BANDS})",
    "eig_banded": f"linalg.eig_banded({_BANDS})",
    "eigvals_banded": f"linalg.eigvals_banded({_BANDS})",
    "funm": f"linalg.funm({_SQUARE}, lambda z: z * np.exp(z))",
    "ishermitian": f"linalg.ishermitian({_SQUARE}) * x",
    "issymmetric": f"linalg.issymmetric({_SQUARE}) * x",
    "null_space": "linalg.null_space(x)",
    "orth": "linalg.orth(x.T)",
    "orthogonal_procrustes": "linalg.orthogonal_procrustes(x[:, :3], x[:, 1:])[0]",
    "rsf2csf": f"linalg.rsf2csf({_SQUARE}, np.eye(3))[0]",
    "convolution_matrix": "linalg.convolution_matrix(x[0], 3)",
    "eig": f"linalg.eig({_SQUARE})[0].real",
    "eigvals": f"linalg.eigvals({_SQUARE}).real",
    "eigh_tridiagonal": "linalg.eigh_tridiagonal(x[0], x[1, :3])",
    "eigvalsh_tridiagonal": "linalg.eigvalsh_tridiagonal(x[0], x[1, :3])",
    "fractional_matrix_power": f"linalg.fractional_matrix_power({_SQUARE}, 0.3)",
    "khatri_rao": "linalg.khatri_rao(x, x)",
    "leslie": "linalg.leslie(x[0], x[1, :3])",
    "lstsq": "linalg.lstsq(x.T, x[0])[0]",
    "lu": "linalg.lu(x)[1:]",
    "matmul_toeplitz": "linalg.matmul_toeplitz((x[0], x[1]), x[2])",
    "polar": "linalg.polar(x.T)",
    "solve_banded": "linalg.solve_banded((1, 1), x[:, :3] + 2.0 * np.eye(3)[1][:, None], x[:, 3])",
    "solve_circulant": "linalg.solve_circulant(x[0] + 3.0 * np.eye(4)[0], x[1])",
    "solve_continuous_are": f"linalg.solve_continuous_are(x[:, :3], x[:, 1:], {_SQUARE}, {_SQUARE})",
    "solve_continuous_lyapunov": f"linalg.solve_continuous_lyapunov({_SQUARE}, x[:, 1:])",
    "solve_discrete_are": f"linalg.solve_discrete_are(x[:, :3], x[:, 1:], {_SQUARE}, {_SQUARE})",
    "solve_discrete_lyapunov": "linalg.solve_discrete_lyapunov(0.3 * x[:, :3], x[:, 1:])",
    "solve_lyapunov": f"linalg.solve_lyapunov({_SQUARE}, x[:, 1:])",
    "solve_sylvester": f"linalg.solve_sylvester({_SQUARE}, {_SQUARE}, x[:, 1:])",
    "solve_toeplitz": "linalg.solve_toeplitz(x[0] + 3.0 * np.eye(4)[0], x[1])",
    "solveh_banded": "linalg.solveh_banded(x[:2] + 3.0 * np.eye(2)[1][:, None], x[2])",
    "subspace_angles": "linalg.subspace_angles(x.T[:, :2], x.T[:, 2:])",
}
