"""The examples of SciPy's other families in docs/support-scipy.md; ``python tests/support.py`` tries them."""

from __future__ import annotations

_WINDOW = "np.array([0.25, 0.5, 0.25])"
_TALL = "np.concatenate([x.ravel(), x[::-1].ravel(), x.ravel()])"  # 36 samples
_SECTIONS = "np.array([[0.2, 0.3, 0.1, 1.0, -0.4, 0.1], [0.5, 0.1, 0.0, 1.0, 0.2, 0.05]])"
_KNOTS = "np.linspace(0.0, 3.0, 4)"
_AT = "np.array([0.4, 1.3, 2.6])"

SIGNAL = {
    "cheby1": "signal.cheby1(2, 1.0, 0.3)[0] * x[0, 0]",
    "chirp": "signal.chirp(x, 0.3, 1.0, 0.6)",
    **{
        name: f"signal.{name}({_TALL}, {_TALL}[::-1], nperseg=12)[1]"
        for name in ("csd", "coherence")
    },
    **{
        name: f"signal.{name}({_TALL}, nperseg=12)[-1]" for name in ("welch", "spectrogram", "stft")
    },
    "periodogram": f"signal.periodogram({_TALL})[1]",
    "istft": f"signal.istft(signal.stft({_TALL}, nperseg=12)[2], nperseg=12)[1]",
    **{
        name: f"signal.{name}(x[0], {_WINDOW})"
        for name in ("convolve", "correlate", "fftconvolve", "oaconvolve", "deconvolve")
    },
    "deconvolve": "signal.deconvolve(x[0], x[1, :2])",
    **{name: f"signal.{name}(x, x[:2, :2])" for name in ("convolve2d", "correlate2d")},
    "decimate": f"signal.decimate({_TALL}, 2)",
    "detrend": "signal.detrend(x)",
    "dlsim": "signal.dlsim(([1.0], [1.0, 0.5], 0.1), x[0])[1]",
    "lsim": "signal.lsim(([1.0], [1.0, 0.5, 2.0]), x[0], np.arange(4.0))[1]",
    "envelope": f"signal.envelope({_TALL})[0]",
    **{
        name: f"signal.{name}([0.2, 0.3], [1.0, -0.4], {_TALL})" for name in ("lfilter", "filtfilt")
    },
    "lfilter_zi": "signal.lfilter_zi([0.2, 0.3], np.array([1.0, x[0, 0]]))",
    "lfiltic": "signal.lfiltic([0.2, 0.3], [1.0, -0.4], x[0, :1])",
    "firwin": "signal.firwin(5, 0.3) * x[0, 0]",
    "freqs": "np.abs(signal.freqs([1.0], np.array([1.0, x[0, 0]]), np.array([0.5, 1.0]))[1])",
    "freqz": "np.abs(signal.freqz(x[0], 1.0, np.array([0.5, 1.0]))[1])",
    **{name: f"np.abs(signal.{name}({_SECTIONS}, x[0])[1])" for name in ("freqz_sos", "sosfreqz")},
    "sosfilt": f"signal.sosfilt({_SECTIONS}, {_TALL})",
    "sosfiltfilt": f"signal.sosfiltfilt({_SECTIONS}, {_TALL})",
    "sosfilt_zi": f"signal.sosfilt_zi({_SECTIONS}) * x[0, 0]",
    "gauss_spline": "signal.gauss_spline(x, 3)",
    "gausspulse": "signal.gausspulse(x, 0.4)",
    "hilbert": "np.abs(signal.hilbert(x))",
    "hilbert2": "np.abs(signal.hilbert2(x))",
    "lombscargle": "signal.lombscargle(np.arange(4.0), x[0], np.array([0.5, 1.0]))",
    "medfilt": "signal.medfilt(x[0], 3)",
    "medfilt2d": "signal.medfilt2d(x, 3)",
    "order_filter": "signal.order_filter(x, np.ones((3, 3)), 4)",
    "resample": "signal.resample(x, 2, axis=0)",
    "resample_poly": f"signal.resample_poly({_TALL}, 2, 3)",
    "savgol_coeffs": "signal.savgol_coeffs(5, 2) * x[0, 0]",
    "savgol_filter": f"signal.savgol_filter({_TALL}, 5, 2)",
    "sawtooth": "signal.sawtooth(x)",
    "square": "signal.square(x)",
    "sweep_poly": "signal.sweep_poly(x, np.array([0.3, 0.1]))",
    "upfirdn": f"signal.upfirdn({_WINDOW}, x[0], 2)",
    "wiener": "signal.wiener(x, 3)",
}
NDIMAGE = {
    "affine_transform": "ndimage.affine_transform(x, np.eye(2) * 0.8)",
    **{name: f"ndimage.{name}(x, x[:2, :2])" for name in ("convolve", "correlate")},
    **{name: f"ndimage.{name}(x, {_WINDOW})" for name in ("convolve1d", "correlate1d")},
    **{
        name: f"ndimage.{name}(np.fft.fft2(x), 0.7).real"
        for name in ("fourier_gaussian", "fourier_shift", "fourier_uniform")
    },
    **{
        name: f"ndimage.{name}(x, 0.8)"
        for name in (
            *("gaussian_filter", "gaussian_filter1d", "gaussian_gradient_magnitude"),
            "gaussian_laplace",
        )
    },
    "generic_filter": "ndimage.generic_filter(x, np.sum, 3)",
    "generic_gradient_magnitude": "ndimage.generic_gradient_magnitude(x, ndimage.sobel)",
    "generic_laplace": "ndimage.generic_laplace(x, ndimage.sobel)",
    "geometric_transform": "ndimage.geometric_transform(x, lambda p: (0.8 * p[0], 0.9 * p[1]))",
    "map_coordinates": "ndimage.map_coordinates(x, np.array([[0.4, 1.2], [1.1, 2.3]]))",
    **{
        f"grey_{name}": f"ndimage.grey_{name}(x, 3)"
        for name in ("closing", "dilation", "erosion", "opening")
    },
    **{
        name: f"ndimage.{name}(x, 3)"
        for name in (
            *("maximum_filter", "maximum_filter1d", "median_filter", "minimum_filter"),
            *("minimum_filter1d", "uniform_filter", "uniform_filter1d"),
            *("morphological_gradient", "morphological_laplace"),
        )
    },
    "percentile_filter": "ndimage.percentile_filter(x, 40, 3)",
    "rank_filter": "ndimage.rank_filter(x, 2, 3)",
    "rotate": "ndimage.rotate(x, 20.0, reshape=False)",
    "shift": "ndimage.shift(x, 0.4)",
    "zoom": "ndimage.zoom(x, 1.5)",
}
INTERPOLATE = {
    **{
        name: f"interpolate.{name}({_KNOTS}, x[0])({_AT})"
        for name in (
            *("Akima1DInterpolator", "CubicSpline", "PchipInterpolator", "interp1d", "pchip"),
            *("InterpolatedUnivariateSpline", "make_interp_spline"),
        )
    },
    "UnivariateSpline": f"interpolate.UnivariateSpline({_KNOTS}, x[0], s=0)({_AT})",
    "BSpline": f"interpolate.BSpline(np.arange(8.0), x[0], 3)({_AT} + 2.0)",
    "CubicHermiteSpline": f"interpolate.CubicHermiteSpline({_KNOTS}, x[0], x[1])({_AT})",
    "PPoly": f"interpolate.PPoly(x, np.arange(5.0))({_AT})",
    "RegularGridInterpolator": (
        "interpolate.RegularGridInterpolator((np.arange(3.0), np.arange(4.0)), x)"
        "(np.array([[0.4, 1.2]]))"
    ),
    "interpn": "interpolate.interpn((np.arange(3.0), np.arange(4.0)), x, np.array([[0.4, 1.2]]))",
    "pchip_interpolate": f"interpolate.pchip_interpolate({_KNOTS}, x[0], {_AT})",
    "splev": f"interpolate.splev({_AT}, interpolate.splrep({_KNOTS}, x[0]))",
    "splint": f"interpolate.splint(0.3, 2.4, interpolate.splrep({_KNOTS}, x[0]))",
    "splrep": f"interpolate.splrep({_KNOTS}, x[0])[1]",
}
INTEGRATE = {
    "cumulative_simpson": "integrate.cumulative_simpson(x, dx=0.5)",
    "dblquad": "integrate.dblquad(lambda a, b: a * b * x[0, 0], 0.0, 1.0, 0.0, x[0, 1])[0]",
    "fixed_quad": "integrate.fixed_quad(lambda t: np.exp(t * x[0, 0]), 0.0, x[0, 1])[0]",
    "quad": "integrate.quad(lambda t: np.exp(t * x[0, 0]), 0.0, x[0, 1])[0]",
    "odeint": "integrate.odeint(lambda y, t: -y * x[0, 0], x[1, :2], np.array([0.0, 0.5]))",
    "solve_ivp": "integrate.solve_ivp(lambda t, y: -y * x[0, 0], (0.0, 1.0), x[1, :2]).y[:, -1]",
    "romb": "integrate.romb(np.concatenate([x[0], x[1, :1]]))",
}
_ROOT = "lambda t: t**3 + x[0, 0] * t - 0.4"
OPTIMIZE = {
    **{
        name: f"optimize.{name}({_ROOT}, 0.0, 2.0)"
        for name in ("bisect", "brenth", "brentq", "ridder", "toms748")
    },
    "newton": f"optimize.newton({_ROOT}, 0.5)",
    "root_scalar": f"optimize.root_scalar({_ROOT}, bracket=(0.0, 2.0)).root",
    "fixed_point": "optimize.fixed_point(lambda t: np.cos(t) * x[0, 0], 0.5)",
    "fsolve": "optimize.fsolve(lambda t: t**3 + x[0] * t - 0.4, np.full(4, 0.5))",
    "root": "optimize.root(lambda t: t**3 + x[0] * t - 0.4, np.full(4, 0.5)).x",
    "minimize_scalar": "optimize.minimize_scalar(lambda t: np.sum((t - x[0]) ** 2)).x",
    "nnls": "optimize.nnls(x[:, :2], x[:, 2])[0]",
    **{f"rosen{name}": f"optimize.rosen{name}(x[0])" for name in ("", "_der", "_hess")},
    "rosen_hess_prod": "optimize.rosen_hess_prod(x[0], x[1])",
}
_OF_BOOLEANS = ("dice", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule")
DISTANCE = {
    **{
        name: f"distance.{name}(x[0], x[1])"
        for name in (
            *("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine"),
            *("euclidean", "hamming", "jensenshannon", "minkowski", "sqeuclidean", "rel_entr"),
        )
    },
    **{name: f"distance.{name}(x[0] > 0.4, x[1] > 0.5)" for name in _OF_BOOLEANS},
    "cdist": "distance.cdist(x, x[:2] + 0.1)",
    "mahalanobis": "distance.mahalanobis(x[0], x[1], np.eye(4) * 2.0)",
    "seuclidean": "distance.seuclidean(x[0], x[1], np.ones(4) * 2.0)",
    "norm": "distance.norm(x)",
    "pdist": "distance.pdist(x)",
    "squareform": "distance.squareform(x[0, :3])",
}
STATS = {
    "boxcox": "stats.boxcox(x[0], 0.7)",
    "boxcox_llf": "stats.boxcox_llf(0.7, x[0])",
    "yeojohnson": "stats.yeojohnson(x[0], 0.7)",
    "yeojohnson_llf": "stats.yeojohnson_llf(0.7, x[0])",
    "gaussian_kde": "stats.gaussian_kde(x[0])(x[1])",
    "linregress": "stats.linregress(x[0], x[1]).slope",
    "moment": "stats.moment(x, 2)",
    "pearsonr": "stats.pearsonr(x[0], x[1]).statistic",
    "pmean": "stats.pmean(x, 2.0)",
    "spearmanr": "stats.spearmanr(x[0], x[1]).statistic",
    "trim_mean": "stats.trim_mean(x, 0.3)",
    "ttest_1samp": "stats.ttest_1samp(x[0], 0.3).pvalue",
    "ttest_ind": "stats.ttest_ind(x[0], x[1]).pvalue",
    "ttest_rel": "stats.ttest_rel(x[0], x[1]).pvalue",
    "zmap": "stats.zmap(x, x[::-1])",
}
FFT = {
    "fftfreq": "fft.fftfreq(4) * x",
    "rfftfreq": "fft.rfftfreq(6) * x",
}
TABLES = {
    "fft": FFT,
    "integrate": INTEGRATE,
    "interpolate": INTERPOLATE,
    "ndimage": NDIMAGE,
    "optimize": OPTIMIZE,
    "signal": SIGNAL,
    "spatial.distance": DISTANCE,
    "stats": STATS,
}
