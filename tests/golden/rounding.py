"""How far a bf16 run of a model may be from its f32 run: an error analysis by random rounding.

A distance d = |x - x*| / |x*| of one bf16 run is one draw. To first order x - x* = sum over all roundings of
e_k J_k, where |e_k| is at most the unit roundoff 2^-8 and J_k, what the rest of the model makes of it, says how much
is cancelled. The signs of the e_k are luck: another order of sums or another place of a rounding draws again. So the
reference's own bf16 run says the size of d only up to luck, and there is much of it in small tensors: if few
roundings dominate, they move all of a gradient together.

Here the reference runs DRAWS times, each result of an operation rounded to bf16 up or down at random, up with the
probability of the part cut off (stochastic rounding: no bias, errors independent; Parker 1997; Croci et al. 2022).
Its variance is f (1 - f) ulp^2, in the mean over f 1/6 ulp^2; of rounding to nearest it is 1/12 ulp^2: half. With
the errors E_i of the draws

    s^2 = tr C / 2              mean of d^2 for rounding to nearest, where C = E[E E^T]
    n = (tr C)^2 / tr C^2       of how many independent errors d^2 is the sum (Satterthwaite); tr C^2 is the mean
                                of (E_i . E_j)^2 over i != j

d^2 is taken as s^2 chi^2_n / n. The limit is its quantile to exceed which a right run has a chance of 1e-6 (Wilson
and Hilferty's formula): 1.3 s for n = 150, as logits have, 3 s for n = 4, as have gradients of 12 numbers.

Nothing of it comes from the run that is checked, which is supposed to round its operations' results, as the reference
does, and to sum in f32. It holds to first order: where a model divides by what may be as small as its rounding, one
draw is off by tens of times the others, and the limit is one that nothing exceeds.
"""
import torch
import transformers
import peft
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import deepseek_v3 as common

DRAWS, Z = 32, 4.753  # Z: the normal deviate that is exceeded with a chance of 1e-6


class RandomRounding(TorchDispatchMode):
    """What an operation on bf16 makes in bf16 is computed in f32 and rounded at random."""

    def __init__(self, generator):
        super().__init__()
        self.generator = generator

    def rounded(self, x):
        if not isinstance(x, torch.Tensor) or x.dtype != torch.float32:
            return x
        noise = torch.randint(0, 1 << 16, x.shape, generator=self.generator, dtype=torch.int32)
        bits = (x.contiguous().view(torch.int32) + noise) & -(1 << 16)
        return bits.view(torch.float32).to(torch.bfloat16)  # exact, as are all that were bf16 before

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, seen = kwargs or {}, []
        wanted = kwargs.get("dtype")

        def widened(x):
            if not isinstance(x, torch.Tensor) or x.dtype != torch.bfloat16:
                return x
            seen.append(x)
            return x.float()

        if func._schema.is_mutable or any(r.alias_info for r in func._schema.returns):
            assert not func._schema.is_mutable, func  # none of these models has one: nothing is rounded unseen
            return func(*args, **kwargs)  # a view
        wide, wide_kwargs = tree_map(widened, (args, kwargs))
        if wanted == torch.bfloat16:
            wide_kwargs = {**wide_kwargs, "dtype": torch.float32}
        elif wanted is not None or not seen:
            return func(*args, **kwargs)  # f32, or a cast to it
        return tree_map(self.rounded, func(*wide, **wide_kwargs))


def limit(errors):
    """errors (DRAWS, elements), relative."""
    gram = errors @ errors.T
    others = gram[~torch.eye(DRAWS, dtype=torch.bool)]
    square = gram.diag().mean()
    c = 2 / 9 * (others ** 2).mean() / square ** 2  # 2 / (9 n)
    return (square / 2).sqrt() * (1 - c + Z * c.sqrt()) ** 1.5


def limits(folder, golden, batch, seed):
    """limit.NAME for logits and gradients; limit.grad for all gradients: the root of the sum of their d^2."""
    base = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, attn_implementation="eager").eval()  # each rounding is an operation's
    model = peft.PeftModel.from_pretrained(base, folder, is_trainable=True)
    generator = torch.Generator().manual_seed(seed)
    errors = {}
    for _ in range(DRAWS):
        with RandomRounding(generator):
            drawn = common.run(model, batch)
        for name, x in drawn.items():
            error = (x - golden[name]).flatten().double() / golden[name].double().norm()
            errors.setdefault(name, []).append(error)
    errors = {name: torch.stack(x) for name, x in errors.items() if name != "loss"}
    errors["grad"] = torch.cat([x for name, x in errors.items() if name.startswith("grad.")], dim=1)
    made = {"limit." + name: limit(x).float().view(1) for name, x in errors.items()}
    assert all(x.isfinite() for x in made.values()), made
    return made
