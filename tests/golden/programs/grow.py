"""Grows a program: statements that PyTorch runs as they are chosen, then the passes that the program asks for."""

import random

import torch

from tables.case import NAMES
from tables.samples import SEED

from . import changes, joins, pointwise, shapes
from .draw import Draw, call
from .machine import Machine, Refused

# How often each step is tried, relative to the others.
STEPS = {
    pointwise.unary: 20, pointwise.positive: 5, pointwise.arithmetic: 24, pointwise.reflected: 3, pointwise.power: 5,
    pointwise.extreme: 5, pointwise.clamp: 4, pointwise.compare: 2, pointwise.choose: 7, pointwise.logic: 1, pointwise.cast: 3,
    shapes.reduction: 14, shapes.truth: 2, shapes.softmax: 4, shapes.folded: 2, shapes.view: 14, shapes.part: 5,
    joins.join: 6, joins.pick: 5, joins.scatter: 4, joins.product: 7, joins.loss: 4, changes.write: 9, changes.assign: 5,
    changes.detach: 2, changes.watch: 4, changes.new_leaf: 4,
}  # fmt: skip

KINDS = {"plain": 60, "ties": 28, "nonfinite": 12}
# Values beyond are not kept: what is computed from them says little.
LIMITS = {"plain": 1e4, "ties": 1e9, "nonfinite": 1e30}


class Grower:
    def __init__(self, seed):
        self.rng = random.Random(f"program {seed}")
        self.machine = Machine()
        kind = self.rng.choices(list(KINDS), list(KINDS.values()))[0]
        self.d = Draw(self.rng, self.machine, kind)
        self.program = []
        self.refusals = 0
        self.passes = set()
        self.void = set()  # gradients that are zero: whether there is none instead is the library's choice
        self.flat = False  # whether a recorded gradient depends on nothing: whether it is tracked is the library's choice
        self.recorded = False  # whether a pass was; which results its gradients pass through hangs on the formulas
        self.refused = False  # whether a pass was

    def tame(self, slots):
        """Whether values are small and, in a plain program, finite."""
        values = [self.machine.slots[i] for i in slots]
        for v in values:
            if v is None or not v.dtype.is_floating_point:
                continue
            v = v.detach()
            finite = v[v.isfinite()].abs()
            if self.d.kind == "plain" and len(finite) < v.numel():
                return False
            if finite.numel() and finite.max() > LIMITS[self.d.kind] or v.numel() > 64 or v.dim() > 6:
                return False
        return True

    def offer(self, statements):
        """Runs proposed statements and keeps them if their values are worth keeping; says whether."""
        backup = list(self.machine.slots)
        for number, statement in enumerate(statements):
            try:
                made = self.machine.step(statement)
            except Refused as refused:
                if number or self.refusals == 2:
                    self.machine.slots[:] = backup
                    return False
                self.refusals += 1
                self.program.append(statement | {"refused": str(refused)})
                return True
            if not self.tame(made):
                self.machine.slots[:] = backup
                return False
        self.program += statements
        return True

    def grow(self):
        """The program: leaves, 3 to 25 steps, and one to three passes."""
        d, rng = self.d, self.rng
        for _ in range(rng.randint(1, 4)):
            self.offer([d.leaf()])
        wanted, tries = rng.choices([rng.randint(3, 8), rng.randint(6, 15), rng.randint(12, 25)], [50, 35, 15])[0], 0
        done = 0
        while done < wanted and tries < 200:
            tries += 1
            step = rng.choices(list(STEPS), list(STEPS.values()))[0]
            statements = step(d)
            if not statements or any(s is None for s in statements):
                continue
            if rng.random() < 0.03 and step.__name__ not in ("watch", "new_leaf"):
                plain = lambda s: s["do"] == "leaf" or s.get("op") == "contiguous"  # which may be the value itself
                statements = [s if plain(s) else s | {"no_grad": True} for s in statements]
            done += self.offer(statements)
        for _ in range(rng.choices([1, 2, 3], [60, 30, 10])[0]):
            if not self.refused:
                self.ask()
        return self.program

    # Passes -----------------------------------------------------------------------------------------------------------

    def ask(self):
        rng = self.rng
        kind = rng.choices(["backward", "grad", "second"], [45, 20, 35])[0]
        self.passes.add(kind)
        getattr(self, kind)()

    def do(self, statement):
        """Runs a statement of a pass; a refusal is noted and ends the asking."""
        try:
            made = self.machine.step(statement)
        except Refused as refused:
            self.refused = True
            if "second time" not in str(refused) or self.surely_freed(statement):
                self.program.append(statement | {"refused": str(refused)})
            return None
        self.program.append(statement)
        self.recorded |= statement.get("create_graph", False)
        if statement["do"] in ("grad", "read_grad"):
            for i in made:
                self.look_at(i)
        return made

    def look_at(self, slot):
        """Notes what is special about a gradient."""
        v = self.machine.slots[slot]
        if v is None:
            return
        if not v.detach().any():
            self.void.add(slot)
        elif v.requires_grad:
            leaves = [self.machine.slots[i] for i in self.leaves()]
            weights = torch.arange(v.numel(), dtype=v.dtype).sin().add(1.5).reshape(v.shape)
            try:
                found = torch.autograd.grad(v, leaves, weights, retain_graph=True, allow_unused=True)
            except RuntimeError:  # an earlier pass has freed what it would go through: nobody can tell
                found = []
            self.flat |= not any(g is not None and g.detach().nan_to_num(0).any() for g in found)

    def leaves(self):
        """The slots of the leaves that require a gradient."""
        made, slot = [], 0
        for s in self.program:
            if s["do"] == "leaf" and s["leaf"]["requires_grad"]:
                made.append(slot)
            slot += self.results(s)
        return made

    def results(self, s):
        if "refused" in s or s["do"] in ("write", "assign", "hook", "retain_grad", "zero_grad", "backward"):
            return 0
        if s["do"] == "grad":
            return len(s["inputs"])
        return 2 if s["do"] == "call" and s["op"] in ("max", "min") and "dim" in s["args"] else 1

    def surely_freed(self, statement):
        """Whether every library would have had to save something for the only root: its own value."""
        nodes = [self.machine.slots[i].grad_fn for i in statement["roots"]]
        return len(nodes) == 1 and type(nodes[0]).__name__[:-9] in ("Exp", "Tanh", "Sigmoid", "Softmax", "LogSoftmax", "Sqrt")

    def tracked(self):
        return [i for i in self.d.slots(lambda v: v.requires_grad) if i not in self.void]

    def roots(self, seeds_tracked=True):
        """One or several roots and their seeds, which may be tracked."""
        rng, d = self.rng, self.d
        if rng.random() < 0.02:
            slot = d.slot()
            return None if slot is None else ([slot], None)
        late = [i for i in self.tracked() if self.machine.slots[i].numel() <= 24]
        count = rng.choices([1, 2, 3], [70, 22, 8])[0]
        if not late:
            return None
        weights = [(1 + i) ** 3 * (1 if self.machine.slots[i].is_leaf else 30) for i in late]
        chosen = [rng.choices(late, weights)[0] for _ in range(count)]
        values = [self.machine.slots[i] for i in chosen]
        if all(v.numel() == 1 for v in values) and rng.random() < 0.6 or rng.random() < 0.01:
            return chosen, None
        seeds = []
        for v in values:
            leaf = d.leaf(v.shape, SEED, NAMES[v.dtype], seeds_tracked and rng.random() < 0.1)
            seeds += self.do(leaf)
        return chosen, seeds

    def pass_of(self, name, roots, seeds, **more):
        # What a pass through recorded gradients frees hangs on the formulas.
        options = {"retain_graph": self.rng.random() < 0.4 or self.recorded, "create_graph": False}
        return {"do": name, "roots": roots, "seeds": seeds} | options | more

    def inputs(self):
        """One to three variables to ask the gradients of, rather leaves."""
        rng, leaves = self.rng, self.leaves()
        hooked = self.hooked()  # PyTorch asks before or after the hook
        others = [] if self.recorded else [i for i in self.tracked() if i not in hooked]
        pool = leaves * 3 + others
        return [rng.choice(pool) for _ in range(rng.randint(1, 3))] if pool else []

    def backward(self):
        found = self.roots()
        if found is None:
            return
        statement = self.pass_of("backward", *found)
        # PyTorch goes on keeping the gradients of other results that a pass was limited to.
        inputs = [i for i in self.inputs() if i in self.leaves() or i in self.keepers()]
        if inputs and self.rng.random() < 0.15:
            statement["inputs"] = inputs
        if self.rng.random() < 0.1 and not self.hooked():
            statement["create_graph"] = True
        if self.do(statement) is not None and self.rng.random() < 0.15:
            self.do(statement)
        if not self.refused:
            self.read()
        if statement["create_graph"]:  # a gradient with a history keeps its leaf, which keeps its gradient
            for i in sorted({*self.leaves(), *self.keepers()}):
                self.do({"do": "zero_grad", "input": i})

    def hooked(self):
        """The results with hooks. Whether a recorded gradient passes through one hangs on the formulas."""
        return {s["input"] for s in self.program if s["do"] == "hook"} - set(self.leaves())

    def keepers(self):
        """The results that passes leave gradients in."""
        kept = {s["input"] for s in self.program if s["do"] == "retain_grad"}
        return kept & set(self.d.slots(lambda v: v.requires_grad))

    def read(self):
        for i in sorted({*self.leaves(), *([] if self.recorded else self.keepers())}):
            self.do({"do": "read_grad", "input": i})

    def grad(self):
        found, inputs = self.roots(seeds_tracked=False), self.inputs()
        if found is None or not inputs:
            return
        unused = self.rng.random() < 0.9
        self.do(self.pass_of("grad", *found, inputs=inputs, allow_unused=unused, materialize_grads=self.rng.random() < 0.2 and unused))

    def second(self):
        """The gradients of a weighted sum of gradients."""
        found, inputs = self.roots(), self.inputs()
        if found is None or not inputs or self.hooked():
            return
        given = {"allow_unused": True, "materialize_grads": False}
        made = self.do(self.pass_of("grad", *found, inputs=inputs, **given) | {"create_graph": True})
        if made is None:
            return
        tracked = [i for i in made if i in self.tracked()]
        total = None
        for g in tracked:
            v = self.machine.slots[g]
            weight = self.d.leaf(v.shape, SEED, NAMES[v.dtype], False, plain_layout=True)
            (w,) = self.do(weight)
            for statement in [call("mul", {"input": g, "other": w}), call("sum", {"input": len(self.machine.slots)})]:
                (s,) = self.do(statement)
            total = s if total is None else self.do(call("add", {"input": total, "other": s}))[0]
        if total is None:
            return
        if self.rng.random() < 0.5:
            self.do(self.pass_of("backward", [total], None))
            if not self.refused:
                self.read()
        else:
            self.do(self.pass_of("grad", [total], None, inputs=self.inputs(), **given))
