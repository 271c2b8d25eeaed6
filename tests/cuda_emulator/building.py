"""Compile CUDA C for the CPU by g++: with checked pointers, and a launcher for each kernel."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HEADER = Path(__file__).with_name("emulator.h")
MISSING = None if shutil.which("g++") else "g++ is not installed"
TYPE = r"(?:unsigned |signed )?(?:long long|\w+)"
KERNEL = re.compile(
    r'extern "C"\s+__global__(?:\s+__launch_bounds__\([^)]*\))?\s+void\s+(\w+)\s*\(([^)]*)\)'
)
BOUNDS = re.compile(r"__launch_bounds__\((\d+)[^)]*\)\s+void\s+(\w+)\s*\(")
POINTER = re.compile(rf"(const )?({TYPE})\s*\*\s*__restrict__\s+(\w+)")
SHARED = re.compile(rf"__shared__\s+({TYPE})\s+(\w+)((?:\[[^\]]+\])+);")
DYNAMIC = re.compile(r"extern __shared__ char (\w+)\[\];")
ROW = re.compile(rf"({TYPE})\* (\w+) = \(\1\*\)\((.*)\);")  # a part of it
CHECKS = "signed-integer-overflow,shift,bounds,integer-divide-by-zero,float-cast-overflow"
# what a text may overload: in a namespace its own would hide CUDA's
_MATHS = "abs exp exp2 expm1 log log2 log10 sqrt sin cos tan sinh cosh tanh pow isnan isinf isfinite atomicAdd"
OVERLOADED = " ".join(f"using ::{name};" for name in _MATHS.split())
PART = re.compile(r"(?<=\])\.(real|imag)\b")  # of an element
_units: dict[tuple[str, tuple[str, ...]], tuple[Path, str]] = {}  # where texts are, and as what
# g++ folds x + 1 > x before it looks at overflow: not of what may change, nor where 1 is a call
LOOP = re.compile(r"\b(for \([^;]*;|while \()")  # up to what is asked in each iteration
NUMBER = re.compile(r"(?<=[+-] )(\d+(?:LL)?)(?![\w.])")
INTEGER = re.compile(r"(?<![\w<])(int|long long|Index|short) (?=\w+(?: = |,|;|\)))")
FLAGS = ("-std=c++20", "-O0", "-w", "-fPIC", "-ffp-contract=off", f"-fsanitize={CHECKS}")
FLAGS += ("-fno-omit-frame-pointer",)


@functools.cache
def folder() -> Path:
    """Return the folder, accessible to this user only, that keeps libraries between runs."""
    found = Path(tempfile.gettempdir()) / f"calque-emulator-{os.getuid()}"
    found.mkdir(mode=0o700, exist_ok=True)
    status = found.lstat()
    if found.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o077:
        return Path(tempfile.mkdtemp(prefix="calque-emulator-"))
    return found


def launcher(text: str, kernel: str, options: Sequence[str] = ()) -> Any:
    """The C function that runs a kernel of ``text``, which is compiled if it is in no unit."""
    path, prefix = _units.get((text, tuple(options)), (None, ""))
    path = path or _built(translated(text), tuple(options))
    library = ctypes.CDLL(str(path))
    found = getattr(library, f"launch_{prefix}{kernel}")
    found.library = library
    return found


def moved(library: Any) -> tuple[int, int]:
    """The bytes that the launches of a library have fetched, and stored, since this was asked."""
    counts = [ctypes.c_longlong.in_dll(library, f"bytes_{how}") for how in ("fetched", "stored")]
    found = counts[0].value, counts[1].value
    for count in counts:
        count.value = 0
    return found


def build(texts: Sequence[str], options: tuple[str, ...], size: int = 25) -> None:
    """Compile many texts, so many in one unit, two units at a time.

    What g++ refuses is left out: it is compiled again, and raises, when it is launched.
    """
    rest = [text for text in dict.fromkeys(texts) if (text, options) not in _units]
    if rest:
        _precompiled_header()
    with ThreadPoolExecutor(2) as pool:
        starts = range(0, len(rest), size)
        list(pool.map(lambda k: _build_unit(rest[k : k + size], options), starts))


def _build_unit(texts: Sequence[str], options: tuple[str, ...]) -> None:
    own = [translated(t, f"{k}_") for k, t in enumerate(texts)]
    spaces = [f"namespace text_{k} {{\n{OVERLOADED}\n{text}}}\n" for k, text in enumerate(own)]
    try:
        path = _built("".join(spaces), options)
    except RuntimeError:
        half = len(texts) // 2
        if half:
            _build_unit(texts[:half], options)
            _build_unit(texts[half:], options)
        return
    _units.update({(text, options): (path, f"{k}_") for k, text in enumerate(texts)})


def _built(translation: str, options: tuple[str, ...]) -> Path:
    made = folder() / f"{_digest(translation, options)}.so"
    if not made.exists():
        source = _scratch(made, ".cpp")
        source.write_text(translation, encoding="utf-8")
        header = _precompiled_header()
        compiled, linked = _scratch(made, ".o"), _scratch(made, ".so")
        _run("g++", *FLAGS, *options, "-include", header, "-c", source, "-o", compiled)
        _run("g++", "-shared", compiled, "-o", linked)  # no sanitizer's library: see the header
        linked.replace(made)
        source.unlink()
        compiled.unlink()
    return made


@functools.cache
def _precompiled_header() -> Path:
    copy = folder() / f"{_digest()}.h"
    compiled = copy.with_suffix(".h.gch")
    if not compiled.exists():
        shutil.copyfile(HEADER, copy)
        made = _scratch(compiled, ".gch")
        _run("g++", *FLAGS, "-x", "c++-header", copy, "-o", made)
        made.replace(compiled)
    return copy


def _digest(*what: object) -> str:
    text = repr((FLAGS, HEADER.read_text(encoding="utf-8"), what))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _scratch(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.stem}-{os.getpid()}{suffix}")


def _run(*command: object) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)


def parameters(text: str, name: str, options: Sequence[str] = ()) -> list[str]:
    """Those of a kernel as they are written, with the types that the options define."""
    defined = dict(option[2:].split("=") for option in options if option.startswith("-D"))
    given = dict(KERNEL.findall(text))[name].split(",")
    return [" ".join(defined.get(word, word) for word in one.split()) for one in given]


def most_threads(text: str, name: str) -> int:
    """The threads of a block for which a kernel is compiled."""
    return {kernel: int(most) for most, kernel in BOUNDS.findall(text)}.get(name, 1024)


def translated(text: str, prefix: str = "") -> str:
    """``text`` for g++ behind the header; lines keep their numbers."""
    kernels = KERNEL.findall(text)
    text = POINTER.sub(lambda p: f"emulator::Global<{p[1] or ''}{p[2]}> {p[3]}", text)
    text = DYNAMIC.sub(r"const emulator::SharedPlace \1{0};", SHARED.sub(_shared, text))
    text = ROW.sub(r'const auto \2 = emulator::shared_row<\1>(\3, "\2");', text)
    text = text.replace('extern "C"', "").replace("__shared__", "static")
    # of a cell of doubles and a float g++ would make a float
    text = text.replace("#define NaN __int_as_float(0x7fc00000)", "#define NaN (0.0 / 0.0)")
    text = PART.sub(r"->\1", text)
    text = LOOP.sub(r"\1 emulator::step(),", text)
    text = NUMBER.sub(r"emulator::number(\1)", INTEGER.sub(r"volatile \1 ", text))
    return "#line 1\n" + text + "".join(_launcher(prefix, *found) for found in kernels)


def _shared(found: re.Match[str]) -> str:
    sizes = ", ".join(re.findall(r"\[([^\]]+)\]", found[3]))
    return f'static emulator::Shared<{found[1]}, {sizes}> {found[2]}{{"{found[2]}"}};'


def _launcher(prefix: str, kernel: str, given: str) -> str:
    """A C function that makes the checked pointers, and runs the kernel's grid."""
    taken, made, passed, counted = [], [], [], []
    for parameter in (" ".join(p.split()) for p in given.split(",") if p.strip()):
        pointer = POINTER.fullmatch(parameter)
        if pointer is None:
            taken.append(parameter)
            passed.append(parameter.split()[-1].lstrip("*"))
            continue
        constant, kind, name = pointer.groups()
        kind = f"{constant or ''}{kind}"
        taken.append(f"{kind}* {name}_data, long long {name}_cells_, bool* {name}_held_")
        made.append(f"    std::vector<emulator::Touch> {name}_touches({name}_cells_);")
        counted.append(f"    emulator::count<{kind}>({name}_touches);")
        memory = f'{name}_data, {name}_cells_, {name}_touches.data(), nullptr, "{name}", {name}_held_'
        passed.append(f"emulator::Global<{kind}>{{{{{memory}}}}}")
    taken = ["const unsigned* grid, const unsigned* block, bool barriers, int seed, long long shared", *taken]
    return "\n".join(
        (
            "",
            f'extern "C" const char* launch_{prefix}{kernel}({", ".join(taken)})',
            "{",
            *made,
            f"    auto run = [&] {{ {kernel}({', '.join(passed)}); }};",
            "    const char* error = emulator::launch(grid, block, barriers, seed, shared, run);",
            *counted,
            "    return error;",
            "}",
            "",
        )
    )
