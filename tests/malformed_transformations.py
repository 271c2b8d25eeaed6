"""Calls of transformations, declarations and collectives that work, to be malformed."""

import os
import types

import numpy as np

import calque
from calque.runtime.custom import CustomJvp, CustomVjp
from calque.tests.malformed_subjects import alone, calls_of, no_use, registered, subject
from calque.tests.malformed_values import OMIT, Subject


def product(x, y):
    return x * y


def double(x):
    return 2.0 * x


def pair(x):
    return x * x, x


def norm(x):
    return np.sqrt(np.dot(x, x))


DERIVATIVE = {
    "argnums": (0, "argnums"),
    "argnames": (None, "names"),
    "has_aux": (False, "flag"),
    "holomorphic": (False, "flag"),
}
SECOND = {name: DERIVATIVE[name] for name in ("argnums", "argnames", "has_aux")}
ONE = np.ones(3)
SQUARE = np.ones((2, 2, 2))
MESH = calque.make_mesh((1,), ("x",))


def twin(function):
    """A function of its own: declarations stay in tables."""
    return types.FunctionType(function.__code__, function.__globals__, function.__name__)


def declared(public, /, **parameters):
    made = getattr(calque, public)
    first = double if public != "bilinear" else product

    def make(function=OMIT, **given):
        # what can be declared stays declared: no function but a new one must be
        plain = function is OMIT or callable(function)
        return made(twin(first) if plain else function, **given)

    return Subject(public, make, lambda f: f, parameters)


def collective(name, **parameters):
    """In a mapped function."""
    public = getattr(calque, name)

    def make(**given):
        x = given.pop("x", OMIT)
        return calque.vmap(lambda y: public(y if x is OMIT else x, **given), axis_name="i")(SQUARE)

    return Subject(name, make, lambda f: f, parameters)


def custom(name, **parameters):
    public = getattr(calque, name)

    def make(rules=None, **given):
        made = public(**given)
        if not isinstance(made, (CustomJvp, CustomVjp)):
            return made
        if name == "custom_jvp":
            made.defjvp(lambda *a: (product(*a[-2]), a[-1][0]))
        else:
            made.defvjp(lambda *a: (product(*a), a), lambda *a: (a[-1],) * 2)
        return made

    return Subject(name, make, lambda f: calque.grad(f)(2.0, 3.0), parameters)


def rules_of(name, method, rest=(), **parameters):
    """The rules of a custom function."""

    def make(**given):
        made = getattr(calque, name)(twin(double))
        getattr(made, method)(*given.values())
        return made

    return Subject(f"{name}(f).{method}", make, lambda f: calque.grad(f)(2.0), parameters)


OPTIONS = {"static": ((), "words"), "name": (None, "import name")}
RESULT = {"result": (np.zeros_like, "rule"), "batch": ("sequential", "batch"), **OPTIONS}
SUBJECTS = [
    *(
        subject(kind, lambda f: f(2.0, 3.0), fun=(product, "function"), **DERIVATIVE, **more)
        for kind, more in {
            "grad": {"allow_int": (False, "flag")},
            "value_and_grad": {"allow_int": (False, "flag")},
            "jacfwd": {},
            "jacrev": {},
            "hessian": {},
            "jacobian": {},
            "value_and_jacobian": {},
            "value_and_hessian": {},
        }.items()
    ),
    *(
        subject(kind, lambda f: f(2.0, 3.0), fun=(product, "function"), **SECOND)
        for kind in ("hessian_diag", "laplacian")
    ),
    subject(
        "jit",
        lambda f: f(2.0, 3.0),
        fun=(product, "function"),
        static_argnums=((), "static"),
        static_argnames=((), "names"),
        parallel=("auto", "parallel"),
        boundscheck=(None, "boundscheck"),
        deterministic=(False, "deterministic"),
        reassociate=(True, "deterministic"),
        first=("kernels", "first"),
        graph=("auto", "parallel"),
        memory=(None, "every"),
        device=(None, "stage"),
    ),
    subject(
        "parallel",
        lambda f: f(2.0, 3.0),
        fun=(product, "function"),
        static_argnums=((), "static"),
        static_argnames=((), "names"),
    ),
    subject(
        "vmap",
        lambda f: f(np.ones((2, 2)), np.ones((2, 2))),
        fun=(product, "function"),
        in_axes=(0, "axes"),
        out_axes=(0, "out_axes"),
        axis_name=(None, "axis_name"),
        axis_size=(None, "size"),
    ),
    subject("vmap", lambda f: f(np.ones(3)), fun=(double, "function"), chunk_size=(2, "chunk")),
    subject(
        "jvp",
        no_use,
        fun=(product, "function"),
        primals=((2.0, 3.0), "pair"),
        tangents=((1.0, 0.0), "pair"),
        has_aux=(False, "flag"),
    ),
    subject(
        "jet",
        no_use,
        fun=(product, "function"),
        primals=((2.0, 3.0), "pair"),
        series=(((1.0,), (0.0,)), "pair"),
    ),
    subject(
        "hvp",
        no_use,
        fun=(product, "function"),
        primals=((2.0, 3.0), "pair"),
        tangents=((1.0, 0.0), "pair"),
    ),
    Subject(
        "vjp",
        lambda fun, x, has_aux: calque.vjp(fun, x, has_aux=has_aux),
        lambda made: made[1](1.0),
        {"fun": (double, "function"), "x": (2.0, "differentiated"), "has_aux": (False, "flag")},
    ),
    Subject(
        "linearize",
        lambda fun, x, has_aux: calque.linearize(fun, x, has_aux=has_aux),
        lambda made: made[1](1.0),
        {"fun": (double, "function"), "x": (2.0, "differentiated"), "has_aux": (False, "flag")},
    ),
    Subject(
        "linear_transpose",
        lambda fun, x: calque.linear_transpose(fun, x),
        lambda made: made(ONE),
        {"fun": (double, "function"), "x": (ONE, "differentiated")},
    ),
    calls_of("vjp(f, x)[1]", lambda c: calque.vjp(double, ONE)[1](c), cotangent=(ONE, "like ones")),
    calls_of(
        "linearize(f, x)[1]",
        lambda t: calque.linearize(double, ONE)[1](t),
        tangent=(ONE, "like ones"),
    ),
    calls_of(
        "linear_transpose(f, x)",
        lambda c: calque.linear_transpose(double, ONE)(c),
        cotangent=(ONE, "like ones"),
    ),
    calls_of("jvp(f)", calque.jvp(double), x=(ONE, "differentiated"), tangent=(ONE, "like ones")),
    calls_of("vjp(f)", calque.vjp(double), x=(ONE, "differentiated"), cotangent=(ONE, "like ones")),
    calls_of("hvp(f)", calque.hvp(norm), x=(ONE, "differentiated"), tangent=(ONE, "like ones")),
    *(
        calls_of(
            f"{kind}(f)",
            getattr(calque, kind)(product),
            x=(2.0, "differentiated"),
            y=(3.0, "value"),
        )
        for kind in ("grad", "value_and_grad", "jacfwd", "jacrev", "hessian")
    ),
    calls_of("jit(f)", calque.jit(product), x=(2.0, "value"), y=(ONE, "value")),
    calls_of("vmap(f)", calque.vmap(product), x=(ONE, "mapped"), y=(ONE, "mapped")),
    calls_of("checkpoint(f)", calque.grad(calque.checkpoint(product)), x=(2.0, "differentiated")),
    subject(
        "checkpoint",
        lambda f: calque.grad(f)(2.0, 3.0),
        fun=(product, "function"),
        every=(None, "every"),
        memory=(None, "every"),
        prevent_cse=(True, "flag"),
        policy=(None, "policy"),
        static_argnums=((), "static"),
    ),
    subject(
        "remat",
        lambda f: calque.grad(f)(2.0, 3.0),
        fun=(product, "function"),
        every=(None, "every"),
        memory=(None, "every"),
        prevent_cse=(True, "flag"),
        policy=(None, "policy"),
        static_argnums=((), "static"),
    ),
    custom("custom_jvp", fun=(product, "function"), nondiff_argnums=((), "numbers")),
    custom("custom_vjp", fun=(product, "function"), nondiff_argnums=((), "numbers")),
    rules_of(
        "custom_jvp",
        "defjvp",
        jvp=(lambda p, t: (2.0 * p[0], 2.0 * t[0]), "rule"),
        symbolic_zeros=(False, "no"),
    ),
    rules_of("custom_jvp", "defjvps", jvps=(lambda t, y, x: 2.0 * t, "rule or none")),
    rules_of(
        "custom_vjp",
        "defvjp",
        fwd=(lambda x: (2.0 * x, None), "rule"),
        bwd=(lambda r, g: (2.0 * g,), "rule"),
        symbolic_zeros=(False, "no"),
        optimize_remat=(False, "flag"),
    ),
    Subject(
        "check",
        lambda fn, x, seed: calque.check(fn, x, seed=seed),
        no_use,
        {"fn": (double, "function"), "x": (0.5, "differentiated"), "seed": (0, "seed")},
    ),
    subject(
        "check_grads",
        no_use,
        f=(double, "function"),
        args=((0.5,), "pair"),
        order=(1, "order"),
        modes=(("fwd",), "modes"),
        atol=(None, "tolerance"),
        rtol=(None, "tolerance"),
        eps=(None, "step"),
    ),
    Subject(
        "custom_root",
        lambda **given: calque.custom_root(**given),
        no_use,
        {
            "f": (lambda x: x - 1.0, "function"),
            "initial_guess": (1.0, "anything"),
            "solve": (lambda f, x: x, "function"),
            "tangent_solve": (None, "function or none"),
            "has_aux": (False, "flag"),
        },
    ),
    subject(
        "fixed_point",
        no_use,
        f=(lambda x: 0.5 * (x + 2.0 / x), "function"),
        x0=(1.0, "value"),
        tolerance=(1e-12, "tolerance"),
        max_steps=(1000, "steps"),
        tangent_solve=(None, "function or none"),
    ),
    Subject(
        "grad of custom_root",
        lambda **given: calque.grad(lambda a: calque.custom_root(lambda x: x - a, **given))(2.0),
        no_use,
        {
            "initial_guess": (1.0, "value"),
            "solve": (lambda f, x: x - f(x), "function"),
            "tangent_solve": (None, "function or none"),
            "has_aux": (False, "flag"),
        },
    ),
    Subject(
        "grad of fixed_point",
        lambda **given: calque.grad(
            lambda a: calque.fixed_point(lambda x: 0.5 * (x + a / x), **given)
        )(2.0),
        no_use,
        {
            "x0": (1.0, "value"),
            "tolerance": (1e-12, "tolerance"),
            "max_steps": (1000, "steps"),
            "tangent_solve": (None, "function or none"),
        },
    ),
    declared(
        "elementwise",
        function=(OMIT, "function"),
        partials=(lambda x, y: 2.0, "rule or none"),
        dtype=(None, "dtype"),
        **OPTIONS,
    ),
    declared(
        "linear",
        function=(OMIT, "function"),
        transpose=(lambda c, x: c, "rule or none"),
        wrt=(None, "numbers"),
        **RESULT,
    ),
    declared(
        "bilinear",
        function=(OMIT, "function"),
        transpose=(lambda c, a, b: (c, c), "rule or none"),
        **RESULT,
    ),
    declared(
        "reduction",
        function=(OMIT, "function"),
        slope=(lambda x, y: x, "rule or none"),
        dtype=(None, "dtype"),
        **OPTIONS,
    ),
    declared(
        "opaque",
        function=(OMIT, "function"),
        jvp=(None, "rule or none"),
        vjp=(None, "rule or none"),
        **RESULT,
    ),
    Subject("spec", calque.spec, no_use, {"text": ("f8[3]", "never")}),
    Subject(
        "source",
        lambda fn, x, stage, engine: calque.source(fn, x, stage=stage, engine=engine),
        no_use,
        {
            "fn": (double, "function"),
            "x": (1.0, "value"),
            "stage": (None, "stage"),
            "engine": (None, "stage"),
        },
    ),
    Subject(
        "explain",
        lambda fn, x, why: calque.explain(fn, x, why=why),
        no_use,
        {
            "fn": (calque.grad(double), "function"),
            "x": (1.0, "value"),
            "why": (None, "stage"),
        },
    ),
    Subject(
        "view",
        lambda fn, x, path, stage, engine, against, check: calque.view(
            fn,
            x,
            path=os.devnull if path is None else path,  # else a browser opens
            stage=stage,
            engine=engine,
            against=against,
            check=check,
        ),
        no_use,
        {
            "fn": (double, "function"),
            "x": (1.0, "value"),
            "path": (os.devnull, "page"),
            "stage": (None, "stage"),
            "engine": (None, "stage"),
            "against": (None, "stage"),
            "check": (False, "flag"),
        },
    ),
    Subject(
        "save",
        lambda fn, path, x, stage, engine: calque.save(fn, path, x, stage=stage, engine=engine),
        no_use,
        {
            "fn": (double, "function"),
            "path": (os.devnull, "path"),
            "x": (1.0, "value"),
            "stage": (None, "stage"),
            "engine": (None, "stage"),
        },
    ),
    subject(
        "tree_map",
        no_use,
        f=(lambda x: x, "function"),
        tree=([1.0], "tree"),
        is_leaf=(None, "function or none"),
    ),
    Subject(
        "tree_map of two",
        lambda function, tree, rest: calque.tree_map(function, tree, rest),
        no_use,
        {
            "function": (lambda x, y: x, "function"),
            "tree": ([1.0], "tree"),
            "rest": ([1.0], "tree"),
        },
    ),
    subject(
        "pmap",
        lambda f: f(np.ones((1, 2))),
        fun=(double, "function"),
        axis_name=(None, "axis_name"),
        in_axes=(0, "axes"),
        out_axes=(0, "out_axes"),
        static_broadcasted_argnums=((), "static"),
        devices=(None, "devices"),
        axis_size=(None, "size"),
        engine=(None, "stage"),
    ),
    subject(
        "shard_map",
        lambda f: f(np.ones(2)),
        f=(double, "function"),
        mesh=(MESH, "never"),
        in_specs=(calque.P("x"), "specs"),
        out_specs=(calque.P("x"), "specs"),
        check_vma=(True, "flag"),
        engine=(None, "stage"),
    ),
    subject("stop_gradient", no_use, x=(1.0, "anything")),
    Subject(
        "grad of stop_gradient",
        lambda x: calque.grad(
            lambda y: y * calque.tree_map(lambda _: 1.0, calque.stop_gradient(x))
        )(2.0),
        no_use,
        {"x": (1.0, "value")},
    ),
    Subject(
        "debug_nans",
        lambda enabled: calque.debug_nans(enabled),
        no_use,
        {"enabled": (True, "flag")},
    ),
    registered(
        "register_pytree_node",
        cls=(OMIT, "class"),
        flatten=(lambda x: ((), None), "rule"),
        unflatten=(lambda a, c: None, "rule"),
    ),
    registered("register_pytree_node_class", cls=(OMIT, "class")),
    registered(
        "register_dataclass",
        cls=(OMIT, "class"),
        data_fields=(["a"], "fields"),
        meta_fields=(["b"], "fields"),
        drop_fields=((), "dropped"),
    ),
    *(
        build(name, x=(OMIT, "value"), axis_name=("i", "axis"), axis_index_groups=(None, "no"))
        for name in ("psum", "pmean", "pmax", "pmin")
        for build in (collective, alone)
    ),
    *(
        build(
            name,
            x=(OMIT, "value"),
            axis_name=("i", "axis"),
            axis_index_groups=(None, "no"),
            **{
                "all_gather": {"axis": (0, "place")},
                "psum_scatter": {"scatter_dimension": (0, "place")},
            }.get(name, {"split_axis": (0, "place"), "concat_axis": (0, "place")}),
            tiled=(False, "flag"),
        )
        for name in ("all_gather", "psum_scatter", "all_to_all")
        for build in (collective, alone)
    ),
    *(
        build("ppermute", x=(OMIT, "value"), axis_name=("i", "axis"), perm=([(0, 1)], "pairs"))
        for build in (collective, alone)
    ),
    *(
        build("pcast", x=(OMIT, "value"), axis_name=("i", "axis"), to=("varying", "never"))
        for build in (collective, alone)
    ),
    *(
        Subject(
            name,
            lambda axis_name, public=getattr(calque, name): calque.vmap(
                lambda x: x * public(axis_name), axis_name="i"
            )(SQUARE),
            no_use,
            {"axis_name": ("i", "axis")},
        )
        for name in ("axis_index", "axis_size")
    ),
    *(alone(name, axis_name=("i", "axis")) for name in ("axis_index", "axis_size")),
]
