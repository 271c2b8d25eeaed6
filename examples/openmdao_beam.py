"""A cantilever of least mass, by OpenMDAO, from NumPy functions with exact sparse partials.

The class makes a component of any NumPy function of arrays.
"""

import numpy as np
import openmdao.api as om

import calque
from calque import sparse


class NumPyComponent(om.ExplicitComponent):
    """One NumPy function of arrays, with the partials that calque finds."""

    def initialize(self):
        self.options.declare("function")
        self.options.declare("inputs", types=dict)  # the arguments by name, with an example of each
        self.options.declare("output", types=str)

    def setup(self):
        function, inputs, output = (self.options[k] for k in ("function", "inputs", "output"))
        examples = [np.asarray(x, float) for x in inputs.values()]
        self.value = calque.jit(function)
        self.add_output(output, val=self.value(*examples))
        self.jacobians = {}
        for k, (name, x) in enumerate(zip(inputs, examples)):
            self.add_input(name, val=x)
            jac = self.jacobians[name] = sparse.jacobian(function, *examples, argnums=k)
            self.declare_partials(output, name, rows=jac.sparsity.rows, cols=jac.sparsity.cols)

    def compute(self, inputs, outputs):
        outputs[self.options["output"]] = self.value(*map(inputs.__getitem__, self.jacobians))

    def compute_partials(self, inputs, partials):
        for name, jac in self.jacobians.items():
            entries = jac(*map(inputs.__getitem__, self.jacobians)).data
            partials[self.options["output"], name] = entries


def deflection(thickness, load):
    """Of each joint of a beam of blocks, from the wall on; loads hang at the joints."""
    slope, bent = np.zeros(load.size + 1), np.zeros(load.size + 1)
    for k in range(load.size):
        moment = np.sum(load[k:] * np.arange(1.0, load.size - k + 1.0))
        slope[k + 1] = slope[k] + moment / thickness[k] ** 3
        bent[k + 1] = bent[k] + slope[k + 1]
    return bent


def mass(thickness):
    return np.array([np.sum(thickness)])


def main():
    n = 8
    thickness = np.full(n, 3.0)
    given = {"thickness": thickness, "load": np.linspace(1.0, 0.2, n)}
    beam = NumPyComponent(function=deflection, inputs=given, output="bent")
    weight = NumPyComponent(function=mass, inputs={"thickness": thickness}, output="mass")
    problem = om.Problem(reports=False)
    problem.model.add_subsystem("beam", beam, promotes=["*"])
    problem.model.add_subsystem("weight", weight, promotes=["*"])
    problem.model.add_design_var("thickness", lower=0.5)
    problem.model.add_constraint("bent", indices=[n], upper=10.0)
    problem.model.add_objective("mass")
    problem.driver = om.ScipyOptimizeDriver(optimizer="SLSQP", disp=False)
    problem.setup()
    problem.run_driver()
    print(f"mass {problem['mass'][0]:.4f}, the end bends by {problem['bent'][-1]:.4f}, expected 10")
    print("thickness", np.round(problem["thickness"], 3))
    uniform = (deflection(np.ones(n), given["load"])[-1] / 10.0) ** (1 / 3)
    print(f"blocks of one thickness would weigh {n * uniform:.4f}")
    checked = problem.check_partials(out_stream=None)
    worst = max(part["abs error"].forward for of in checked.values() for part in of.values())
    print(f"partials differ from differences by {worst:.0e}, expected 1e-5 or less")


if __name__ == "__main__":
    main()
