"""Words for the unnamed parts of a user's statement: a full description, else the part's role.

In ``p = (a + b * c) / (1.0 + np.exp(-z))`` they are ``p_numerator``, ``b_times_c``,
``p_denominator`` and ``exp_minus_z``; the adjoint of each is called so, with ``_bar``.
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, If, Var
from calque.transpiler.ir.naming import (
    Definitions,
    Word,
    described,
    first_word,
    told,
    word_within,
)

_FARTHEST = 8  # readers from a value to the one whose part it is
_LONGEST = 20
_PLACES = {
    "divide": ("numerator", "denominator"),
    "power": ("base", "exponent"),
    "add": ("term", "term"),
    "subtract": ("term", "term"),
    "multiply": ("factor", "factor"),
}
_ITSELF = {"add": "sum", "subtract": "difference", "divide": "quotient", "power": "power"}
_SIDES = ("left", "right")


class Roles:
    """The words for the values of a program; ``named`` gives the names of those that have one."""

    def __init__(self, body: Block, named: Word, definitions: Definitions):
        self.written, self.definitions = named, definitions
        self.results = {a for a in body.results if isinstance(a, Var)}
        self.readers: dict[Var, core.Statement] = {}  # the statement that reads each value first
        for s in core.walk(body):
            for atom in core.operands(s):
                if isinstance(atom, Var):
                    self.readers.setdefault(atom, s)

    def named(self, atom: Atom) -> str | None:
        """The user's name for a value, or for the array that it is a part of."""
        made = self.definitions.get(atom) if isinstance(atom, Var) else None
        if self.written(atom):
            return self.written(atom)
        if isinstance(made, Apply) and made.primitive.kind == "indexing":
            return self.named(made.args[0])
        return self.written(atom)

    def word(self, var: Var) -> str | None:
        """A word for a value; None if no short word describes it correctly."""
        if isinstance(self.definitions.get(var), If):
            return self.part(var)
        part, found = self.of_division(var), self._told(var)
        if part is not None and (found is None or not part.startswith("return_")):
            return part
        return found if found is not None and len(found) <= _LONGEST else None

    def name_beside(self, var: Var, other: Var, ending: str) -> None:
        """Give the adjoint or tangent of a value a word made of the value's own.

        The value's role is preferred: ``x_times_y_bar`` could be read as ``x`` times an adjoint.
        """
        made = self.definitions.get(other)
        if other.word is not None:
            return
        if isinstance(made, Apply) and made.primitive.kind == "indexing":
            if self.written(made.args[0]):
                return  # x_bar_ij says more
        words = [self.part(var), var.word, self._told(var)]
        words += [self._described(var)] if ending == "bar" else []
        word = next((w for w in words if w and len(w) <= _LONGEST), None)
        other.word = f"{word}_{ending}" if word else None

    def _described(self, var: Var) -> str | None:
        made = self.definitions.get(var)
        if not isinstance(made, Apply):
            return None

        def within(atom: Atom) -> str | None:
            return word_within(atom, self.written, self.definitions)

        if first_word(made, within) is None:
            return None
        return described(made, within, self.written, self.definitions)

    def _told(self, var: Var) -> str | None:
        made = self.definitions.get(var)
        return told(made, self.named, self.definitions) if isinstance(made, Apply) else None

    def of_division(self, var: Var) -> str | None:
        """The role of a value in a quotient, numerator or denominator; else None."""
        part = self.part(var)
        return part if part is not None and part.endswith(_PLACES["divide"]) else None

    def part(self, var: Var) -> str | None:
        """The role of a value in a named result: ``p_denominator`` for the divisor in ``p``."""
        made = self.definitions.get(var)
        infix = isinstance(made, Apply) and made.primitive.infix
        if var in self.results or made is None or not (infix or isinstance(made, If)):
            return None
        user, place, value = self.readers.get(var), None, var
        within = ""  # numerator_, where the place is one in that
        for _ in range(_FARTHEST):
            if user is None and value in self.results:
                return f"return_{place}" if place in _PLACES["divide"] else None
            if not isinstance(user, Apply) or len(user.outs) != 1:
                return None
            found = self._place(value, user)
            if place is None:
                place = found
            elif found and not within and _of_many(place) and not _of_many(found):
                within = f"{found}_"
            owner = self.named(user.out)
            if owner and "_bar" in owner and made.phase == "forward":
                return None  # a primal's value does not carry an adjoint's name
            if owner:
                return f"{owner}_{within}{place}" if place else None
            value, user = user.out, self.readers.get(user.out)
        return None

    def _place(self, value: Var, user: Apply) -> str | None:
        """The role of a value in its reader; None in a reader without roles, such as a copy."""
        p, position = user.primitive, 1 if value is not user.args[0] else 0
        if p.arithmetic in _PLACES:
            place = _PLACES[p.arithmetic][position]
            other = user.args[1 - position]
            if p.arithmetic == "multiply" and not isinstance(other, Var):
                return self._itself(value) or place
            alike = len(set(_PLACES[p.arithmetic])) == 1 and not self._plain(other)
            return f"{_SIDES[position]}_{place}" if alike else place
        if p.infix == "dot":
            other = user.args[1 - position]
            return "factor" if self._plain(other) else f"{_SIDES[position]}_factor"
        if p.reduction is not None:
            return "terms"
        if p.kind == "elementwise" and len(user.args) == 1 and p.arithmetic in ("", "abs"):
            stem = p.word or p.name.split(".")[-1]
            if self.named(user.out):
                return "pre"
            return f"{stem}_argument" if stem.isidentifier() else None
        return None

    def _itself(self, var: Var) -> str | None:
        """A word for a value by its operation: ``difference``; ``sum`` for more than two terms."""
        made = self.definitions[var]
        if not isinstance(made, Apply):
            return None
        first = self.definitions.get(made.args[0]) if isinstance(made.args[0], Var) else None
        kind = made.primitive.arithmetic
        if isinstance(first, Apply) and first.primitive.arithmetic in ("add", "subtract"):
            kind = "add" if kind == "subtract" and not self.named(made.args[0]) else kind
        return _ITSELF.get(kind)

    def _plain(self, atom: Atom) -> bool:
        """True if an atom is a number, has the user's name, or has a complete description."""
        if not isinstance(atom, Var) or self.named(atom):
            return True
        return self._told(atom) is not None


def _of_many(place: str) -> bool:
    """True if a statement can have several operands of this role."""
    return place.endswith(("term", "terms", "factor"))


def give_words(body: Block, named: Word, definitions: Definitions) -> Roles:
    """Set the word of every unnamed value of a program, in place."""
    roles = Roles(body, named, definitions)
    for s in core.walk(body):
        for out in s.outs:
            if out.name is None and out.word is None:
                out.word = roles.word(out)
    return roles
