"""``jit(f, device=...)``: a function that runs on one device, wherever its arguments lie."""

from __future__ import annotations

from typing import Any

from calque.runtime.cuda import transfers
from calque.runtime.devices.placing import device_get
from calque.runtime.tracebacks import hide_own_frames
from calque.runtime.transformed import Transformed
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.device_arrays import is_device_array


class Placed(Transformed):
    """Called, it moves its arguments to its device; within another function it is ``jit``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the device: results are arrays there."""
        device = self.options["device"]
        if device.platform == "cpu":
            args, kwargs = device_get((args, kwargs))
            return super().__call__(*args, **kwargs)
        there: int = device.id

        def moved(leaf: Any) -> Any:
            elsewhere = is_device_array(leaf) and leaf.data.device_id != there
            return transfers.put(leaf, there) if elsewhere else leaf

        try:
            args, kwargs = pytrees.tree_map(moved, (args, kwargs))
            return self.cuda_programs().call_there(args, kwargs, there)
        except Exception as error:
            hide_own_frames(error)
            raise
