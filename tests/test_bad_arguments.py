"""Bad arguments are refused at construction, by a message that names the argument."""

import numpy as np
import pytest

import calque

MAKERS = ["grad", "value_and_grad", "jacfwd", "jacrev", "hessian"]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    "argnums", [None, True, np.True_, 1.0, "0", b"0", (0, None), (0, True), (0, (1,)), [0.5], {}, ()]
)
def test_argnums_is_named_at_construction(maker, argnums):
    with pytest.raises((TypeError, ValueError), match="argnums"):
        getattr(calque, maker)(lambda x, y: x * y, argnums=argnums)


@pytest.mark.parametrize("argnums", [0, np.int64(0), np.array(0), [0], np.array([0]), range(1)])
def test_whatever_has_an_index_is_argnums(argnums):
    found = calque.grad(lambda x, y: x * y, argnums=argnums)(2.0, 3.0)
    assert found in (3.0, (3.0,))
