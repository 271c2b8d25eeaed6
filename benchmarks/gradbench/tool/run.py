"""calque as a tool of GradBench: answers an eval's messages, one JSON object a line.

python run.py [--multithreaded]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from importlib import import_module
from typing import Any

MODULES = {
    "ba": "bundle_adjustment",
    "det": "determinant",
    "gmm": "gaussian_mixture",
    "hello": "squares",
    "ht": "hand_tracking",
    "kmeans": "clusters",
    "llsq": "least_squares",
    "lse": "log_sum_exp",
    "lstm": "recurrent_network",
    "ode": "runge_kutta",
    "particle": "charged_particle",
    "saddle": "saddle_point",
}
THREADS = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """Return the response to a message, without its id."""
    kind = message["kind"]
    if kind == "start":
        return {"tool": "calque"}
    if kind == "define":
        if message["module"] not in MODULES:
            return {"success": False}
        import_module(MODULES[message["module"]])
        return {"success": True}
    if kind == "evaluate":
        module = import_module(MODULES[message["module"]])
        response: dict[str, Any] = module.EVALUATIONS[message["function"]].answer(message["input"])
        return response
    return {}


def respond(line: str) -> str:
    """Return the line that answers an eval's line; an exception is a failure with its text."""
    message = json.loads(line)
    try:
        response = answer(message)
    except Exception:
        response = {"success": False, "error": traceback.format_exc()}
    return json.dumps({"id": message["id"]} | response)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--multithreaded", action="store_true", help="use all cores")
    if not parser.parse_args().multithreaded:
        os.environ.update(dict.fromkeys(THREADS, "1"))  # read when the libraries are imported
    for line in sys.stdin:
        print(respond(line), flush=True)


if __name__ == "__main__":
    try:
        main()
    except (EOFError, BrokenPipeError):
        pass
