"""The programs of the stages: kernels, NumPy source, or CUDA, of a function for arguments."""

from __future__ import annotations

from typing import Any

from calque.runtime.call.loading import Program
from calque.runtime.devices.mapped import Mapped, jitted
from calque.runtime.engines.choosing import GPUS, THREADS
from calque.runtime.fitting import shown
from calque.runtime.saving.provenance import STAGES
from calque.runtime.transformed import BoundTransformed, Transformed, complete


def as_transformed(fn: Any) -> Transformed:
    """A function as a transformed one; a plain function is transformed by nothing."""
    if isinstance(fn, BoundTransformed):
        return fn.unbound()
    fn = getattr(fn, "calque_program", fn)  # of a sparse derivative: what computes its entries
    if not callable(fn):
        raise TypeError(f"fn must be a function, and is {shown(fn)}")
    return fn if isinstance(fn, Transformed) else Transformed("identity", fn)


def at_stage(fn: Any, stage: str | None) -> Transformed:
    """A function as ``jit`` runs it for "kernels", without ``jit`` for "numpy", else as it is."""
    if stage is not None and not (isinstance(stage, str) and stage in STAGES):
        raise ValueError(f"stage must be one of {', '.join(STAGES)}, not {shown(stage)}")
    transformed = as_transformed(fn)
    if isinstance(transformed, Mapped) and stage == "kernels" and not transformed.compiled:
        return jitted(transformed, lambda f: Transformed("jit", f))
    if stage == "kernels" and not transformed.compiled:
        inner = transformed.function if transformed.kind == "identity" else transformed
        return Transformed("jit", inner)
    return _without_jit(transformed) if stage == "numpy" else transformed


def _without_jit(transformed: Transformed) -> Transformed:
    """The same transformations, uncompiled."""
    if not transformed.compiled:
        return transformed
    inner = transformed.function
    bare = _without_jit(as_transformed(inner))
    if transformed.kind == "jit":
        return bare
    function = bare.function if bare.kind == "identity" else bare
    return type(transformed)(transformed.kind, function, **transformed.options)


def program_at(transformed: Transformed, args: tuple[Any, ...], stage: str | None) -> Program:
    """The program for arguments, or specs; that of a GPU for the stage "cuda"."""
    if stage != "cuda":
        return transformed.program(*args)
    return transformed.cuda_programs().find(complete(transformed, args), {})[0]


def engine_of(mapped: Mapped, stage: str | None, engine: str | None) -> str:
    """The engine whose text is asked for: that of GPUs writes the stage "cuda", and no other."""
    own = GPUS.name if mapped.on_gpus() or stage == "cuda" else THREADS.name
    found = own if engine is None else engine
    if (found == GPUS.name) != (stage == "cuda") and (stage not in (None, "core")):
        raise ValueError(
            f"the engine {found!r} has no stage {shown(stage)}: GPUs have the engine 'nccl' and "
            "the stage 'cuda'"
        )
    return found


def refuse_engine(engine: str | None) -> None:
    """Raise ValueError if an engine is given to a function that runs on one device."""
    if engine is not None:
        raise ValueError("engine is for functions over devices: pmap and shard_map")
