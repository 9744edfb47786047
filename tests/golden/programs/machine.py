"""Runs the statements of a program in PyTorch. The interpreter in `tests/src/programs` does the same with this library.

A program is a list of statements, plain dictionaries as they stand in the file. Values live in numbered slots; a statement
appends its results, and `write` and `assign` put a new value into an old slot. A value never changes otherwise: what PyTorch
writes in place is a copy, so that views and saved values keep what they saw.
"""

import torch

from make_cases import operations
from tables import case
from tables.samples import Op, method

OPS = {op.name: op for op in operations()}
OPS |= {name: Op(name, method(name)) for name in ("index_add", "contiguous")}


class Refused(Exception):
    """PyTorch refuses a statement."""


def overlaps(tensor):
    return tensor.numel() > 0 and any(n > 1 and s == 0 for n, s in zip(tensor.shape, tensor.stride()))


def selection(slices):
    return tuple(item if isinstance(item, int) else slice(*item) for item in slices)


class Machine:
    def __init__(self):
        self.slots = []

    def run(self, program, after=None):
        """Runs all statements. One that was refused when the program was made is refused again."""
        for statement in program:
            try:
                made = self.step(statement)
            except Refused:
                assert "refused" in statement, statement
                continue
            assert "refused" not in statement, statement
            if after:
                after(self, statement, made)
        return self

    def step(self, statement):
        """Runs one statement and gives the slots that it has set; nothing has changed if it is refused."""
        todo = getattr(self, "do_" + statement["do"])
        try:
            with torch.set_grad_enabled(not statement.get("no_grad", False)):
                results = todo(statement)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            raise Refused(str(error).split("\n")[0]) from error
        if "into" in statement:
            self.slots[statement["into"]] = results[0]
            return [statement["into"]]
        first = len(self.slots)
        # PyTorch's views keep saying that they require a gradient when nothing is recorded.
        views = "no_grad" in statement and not any(results[0] is v for v in self.slots)
        self.slots += [v.detach() if views and v.requires_grad else v for v in results]
        return list(range(first, len(self.slots)))

    def do_leaf(self, s):
        return [case.build(s["leaf"])]

    def operands(self, s):
        return {name: self.slots[i] for name, i in s["inputs"].items()}

    def do_call(self, s):
        inputs = self.operands(s)
        results = case.call(OPS[s["op"]], inputs, s["args"])
        # PyTorch returns the input itself where a view would be the same; here only `contiguous` does.
        same = s["op"] != "contiguous" and any(results[0] is v for v in inputs.values())
        return [results[0].view_as(results[0])] if same else results

    def do_write(self, s):
        def operation(target):
            case.call(OPS[s["op"]], self.operands(s) | {"input": target}, s["args"])

        return [self.written(self.slots[s["into"]], operation)]

    def written(self, old, operation):
        """What an operation leaves in a copy; in the tensor itself where PyTorch is to refuse, or to change a leaf."""
        target = old if overlaps(old) or old.is_leaf and old.requires_grad else old.clone()
        operation(target)
        if old.retains_grad and target.requires_grad:
            target.retain_grad()
        return target

    def do_part(self, s):
        return [self.slots[s["input"]][selection(s["slices"])]]

    def do_assign(self, s):
        def operation(target):
            target[selection(s["slices"])] = self.slots[s["value"]]

        return [self.written(self.slots[s["into"]], operation)]

    def do_detach(self, s):
        return [self.slots[s["input"]].detach()]

    def do_hook(self, s):
        self.slots[s["input"]].register_hook(lambda g: g * s["factor"])
        return []

    def do_retain_grad(self, s):
        self.slots[s["input"]].retain_grad()
        return []

    def do_zero_grad(self, s):
        self.slots[s["input"]].grad = None
        return []

    def do_read_grad(self, s):
        grad = self.slots[s["input"]].grad
        return [None if grad is None else grad.clone()]  # PyTorch adds to it in place

    def passed(self, s):
        roots = [self.slots[i] for i in s["roots"]]
        seeds = None if s["seeds"] is None else [self.slots[i] for i in s["seeds"]]
        inputs = [self.slots[i] for i in s["inputs"]] if "inputs" in s else None
        return roots, seeds, inputs, {"retain_graph": s["retain_graph"] or s["create_graph"], "create_graph": s["create_graph"]}

    def do_backward(self, s):
        roots, seeds, inputs, options = self.passed(s)
        torch.autograd.backward(roots, seeds, inputs=inputs, **options)
        return []

    def do_grad(self, s):
        roots, seeds, inputs, options = self.passed(s)
        for name in ("allow_unused", "materialize_grads"):
            options[name] = s[name]
        kept = [(v, v.grad) for v in self.slots if v is not None and v.retains_grad]
        try:
            found = torch.autograd.grad(roots, inputs, seeds, **options)
            # PyTorch's zeros without storage cannot be written.
            return [torch.zeros(g.shape, dtype=g.dtype) if g is not None and g._is_zerotensor() else g for g in found]
        finally:
            for v, grad in kept:  # this library's `Grad` leaves no gradient anywhere
                v.grad = grad
