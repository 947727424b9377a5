"""Networks of one shape, trained end to end as one: every parameter has a first axis that is the network."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rapgnn.layers.dropout import dropout_dense
from rapgnn.layers.mlp import MLP
from rapgnn.models.endtoend import EndToEnd
from rapgnn.training.joined import Batch, Places

EPS, MOMENTUM = 1e-5, 0.1  # of batch norm, torch's
BETAS, ADAM_EPS = (0.9, 0.999), 1e-8  # of Adam, torch's
ALIGNED = 4  # numbers that GPU kernels read at once


class Stack:
    """EndToEnd networks with GIN layers, side by side; none of them sees anything of the others.

    Args:
        networks: of one shape, with their start values.
        like: a tensor of the device and the precision to compute in.

    Shapes:
        parameters ``[M, P]``, statistics ``[M, S]`` (of batch norm): all that training changes, a row per network.
    """

    def __init__(self, networks: Sequence[EndToEnd], like: Tensor):
        self.model = networks[0]
        parameters, buffers = torch.func.stack_module_state(list(networks))  # type: ignore[arg-type]
        running = {name: t for name, t in buffers.items() if name.endswith(("running_mean", "running_var"))}
        self.parameters, views = _one_row_each(parameters, len(networks), like)
        self.statistics, self._running = _one_row_each(running, len(networks), like)
        self._views = {name: view.detach().requires_grad_() for name, view in views.items()}
        self._floor = self.parameters.new_zeros(1)
        used = sum(view[0].numel() for view in views.values())
        self._padding = torch.zeros_like(self.parameters[:, used:])

    def __call__(self, batch: Batch, generator: torch.Generator | None = None) -> Tensor:
        """Scores ``[M, B, classes]``; ``generator`` switches dropout and batch statistics on."""
        model, spec = self.model, self.model.spec
        assert isinstance(model.embedding, MLP)
        h = self._mlp("embedding", model.embedding, batch.x, batch.nodes, generator)
        every = [h]
        for number, layer in enumerate(model.layers):
            assert isinstance(layer, MLP)
            signal = batch.matrix @ dropout_dense(h, model.config.dropout, generator)
            out = self._mlp(f"layers.{number}", layer, signal, batch.nodes, generator)
            h = out + h if spec.skip else out
            every.append(h)
        chosen = every[-1] if len(spec.outputs) == 1 else torch.cat([every[layer] for layer in spec.outputs], dim=2)
        return self._mlp("head.mlp", model.head.mlp, batch.pool @ chosen, batch.graphs, generator)

    def gradient(self, scores: Tensor, slope: Tensor) -> Tensor:
        """The gradient of all parameters ``[M, P]``, from the loss's derivative by the scores."""
        found = torch.autograd.grad(scores, list(self._views.values()), slope)
        return torch.cat([*(part.flatten(1) for part in found), self._padding], dim=1)

    def _mlp(self, name: str, mlp: MLP, h: Tensor, places: Places, generator: torch.Generator | None) -> Tensor:
        """``mlp`` of every network. With batch norm, padding is zero in ``h``; without, no gradient comes from it."""
        for i in range(len(mlp.layers)):
            h = dropout_dense(h, mlp.dropout, generator)
            weight, bias = (self._views[f"{name}.layers.{i}.{part}"] for part in ("weight", "bias"))
            if i + 1 == len(mlp.layers) and not mlp.last_relu:
                return torch.baddbmm(bias[:, None], h, weight.mT)
            if mlp.norms is None:
                h = torch.relu(torch.baddbmm(bias[:, None], h, weight.mT))
            else:
                norm = f"{name}.norms.{i}"
                trained = bias, self._views[f"{norm}.weight"], self._views[f"{norm}.bias"]
                running = self._running[f"{norm}.running_mean"], self._running[f"{norm}.running_var"]
                fixed = running, places, self._floor, generator is not None
                h = _NormRelu.apply(torch.bmm(h, weight.mT), *trained, *fixed)
                assert isinstance(h, Tensor)
        return h


def _one_row_each(tensors: dict[str, Tensor], networks: int, like: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The tensors ``[M, ...]`` as one matrix with a row per network, and each of them as a part of it."""
    count = max(1, sum(t[0].numel() for t in tensors.values()))
    whole = like.new_zeros(networks, count + -count % ALIGNED)
    views, start = {}, 0
    for name, tensor in tensors.items():
        stop = start + tensor[0].numel()
        whole[:, start:stop] = tensor.detach().flatten(1)
        views[name] = whole[:, start:stop].unflatten(1, tensor.shape[1:])
        start = stop
    return whole, views


class _NormRelu(torch.autograd.Function):
    r"""relu(batch norm(u + bias)) of every network over its own rows, in few passes over ``u``, and 0 at padding.

    ``u`` is 0 at padding, so its moments follow from those over all N places: with k of them taken,

    .. math:: m = \frac{N}{k} m_N, \quad v = \frac{N}{k} v_N - (1 - \frac{k}{N}) m^2

    A network with fewer than two rows is normalised by the running moments, as at inference. Elsewhere the bias moves
    the running mean alone, and its gradient is exactly 0; by torch it is rounding, which Adam enlarges to full steps.
    """

    @staticmethod
    def forward(
        ctx,
        u: Tensor,
        bias: Tensor,
        weight: Tensor,
        shift: Tensor,
        running: tuple[Tensor, Tensor],
        places: Places,
        floor: Tensor,
        training: bool,
    ) -> Tensor:
        mean, var = running[0] - bias, running[1]
        if training:
            stretch, gap, unbiased = places.moments
            var_all, mean_all = torch.var_mean(u, 1, correction=0)
            own_mean = mean_all * stretch
            own_var = torch.addcmul(var_all * stretch, own_mean.square(), gap, value=-1).clamp_(min=0)
            step = MOMENTUM * places.several.to(u.dtype)
            mean, var = (torch.where(places.several, a, b) for a, b in ((own_mean, mean), (own_var, var)))
            running[0].lerp_(own_mean + bias, step)
            running[1].lerp_(own_var * unbiased, step)
        inverse = torch.rsqrt(var + EPS)
        scale = weight * inverse
        offset = torch.addcmul(shift, mean, scale, value=-1)
        out = torch.addcmul(offset[:, None], u, scale[:, None])
        out.clamp_(floor, places.most)
        ctx.save_for_backward(u, out, mean, inverse, scale)
        ctx.places = places
        return out

    @staticmethod
    def backward(ctx, *grads: Tensor):
        u, out, mean, inverse, scale = ctx.saved_tensors
        g = torch.ops.aten.threshold_backward(grads[0], out, 0.0)
        total = g.sum(1)
        along = torch.addcmul((g * u).sum(1), mean, total, value=-1) * inverse  # with the normalised u
        share = scale * ctx.places.share
        slope = share * along * inverse
        constant = torch.addcmul(slope * mean, share, total, value=-1)
        by_u = torch.addcmul(constant[:, None], u, -slope[:, None]).addcmul_(g, scale[:, None])
        by_bias = (scale * total).masked_fill_(ctx.places.several, 0.0)
        return by_u, by_bias, along, total, None, None, None, None


class Adam:
    """Adam on a matrix with a row per network, as torch's on each of them.

    It counts the steps of every network: one whose epoch has a batch less than the others' takes no step there.
    """

    def __init__(self, parameters: Tensor, lr: float, weight_decay: float):
        self.parameters, self.lr, self.weight_decay = parameters, lr, weight_decay
        self.mean, self.square = torch.zeros_like(parameters), torch.zeros_like(parameters)
        self.steps = torch.zeros(len(parameters), 1, dtype=torch.float64, device=parameters.device)

    @property
    def state(self) -> list[Tensor]:
        return [self.mean, self.square, self.steps]

    @torch.no_grad()
    def step(self, gradient: Tensor, active: Tensor) -> None:
        """A step of the networks that are active ``[M, 1]``, 1 or 0."""
        self.steps += active
        first, second = (1 - beta**self.steps for beta in BETAS)  # [M, 1] in double precision
        gradient = gradient.add(self.parameters, alpha=self.weight_decay) if self.weight_decay else gradient
        self.mean.lerp_(gradient, (1 - BETAS[0]) * active)
        self.square.lerp_(gradient.square(), (1 - BETAS[1]) * active)
        size, root = (-self.lr * active / first).to(gradient.dtype), second.sqrt().to(gradient.dtype)
        spread = (self.square.sqrt() / root).add_(ADAM_EPS)
        self.parameters.addcdiv_(self.mean * size, spread)
