"""Phase 1: train c' ∘ f_φ on the task without propagation, then freeze f_φ."""

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.device import threads_for
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import Structure, group_max
from rapgnn.layers.embedding import Inputs
from rapgnn.layers.heads import Head
from rapgnn.layers.mlp import seeded
from rapgnn.layers.weights import EVALUATION
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.sparse import SparseMatrix, dense, indicator
from rapgnn.training.loop import Loop, OnEpoch, optimise, shuffled, validator


def pretrain(
    model: RAPGNN, graph: Graph, structure: Structure, on_epoch: OnEpoch | None = None
) -> tuple[Head, "Embedded", Loop]:
    """Train the embedding with a linear classifier of its own, touching the labelled rows only, and freeze both."""
    config, embedding, device = model.config, model.embedding, graph.y.device
    generator, order = seeded(model.seed, 3, device), seeded(model.seed, 5)
    classifier = Head(embedding.out_channels, 1, graph.num_outputs, generator=seeded(model.seed, 1)).to(device)
    embedded = Embedded(model, graph, structure)
    train, y = graph.train, model.output.standardise(graph.y[graph.train])
    if graph.ptr is not None:
        with torch.no_grad():
            first = embedded(train, 0)
            classifier.calibrate(first.mean(0), first.square().mean(0))

    def passes(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        batches = shuffled(len(train), config.batch_size, order, device)
        for batch in batches:
            whole = len(batches) == 1
            rows = train if whole else train[batch]
            yield classifier(embedded(rows, epoch, generator, keep=whole)), (y if whole else y[batch])

    validate = validator(
        graph.rule,
        graph.y[graph.val],
        lambda epoch: model.output(classifier(embedded(graph.val, EVALUATION + epoch, keep=True))),
    )
    with threads_for(embedded.work(train)):
        loop = optimise(
            [embedding, classifier],
            passes,
            graph.rule,
            lr=config.pretrain_lr,
            weight_decay=config.pretrain_weight_decay,
            epochs=config.pretrain_epochs,
            # Where the validation rows are what is judged, they must not choose an epoch of phase 1 as well.
            keep_best=not graph.folds or len(graph.test) > 0,
            validate=validate,
            on_epoch=on_epoch,
        )
    embedding.requires_grad_(False)
    classifier.requires_grad_(False)
    embedded.forget()
    return classifier, embedded, loop


class Embedded:
    """rows -> what phase 1's classifier sees of them: embedded nodes, pooled where rows are graphs.

    Nodes that look alike are embedded once and counted, so a pass over graphs costs what their distinct nodes cost.
    """

    def __init__(self, model: RAPGNN, graph: Graph, structure: Structure):
        self.embedding, self.pooling = model.embedding, model.spec.pooling
        self.x, self.structure = graph.x, structure
        self._fixed = None if self.embedding.random_features else self._prepare(0)
        self._kept: dict[int, tuple[Inputs, SparseMatrix | None, SparseMatrix | None]] = {}

    def __call__(
        self, rows: Tensor, counter: int, generator: torch.Generator | None = None, keep: bool = False
    ) -> Tensor:
        """``keep`` remembers what was sliced for these rows, for the next time."""
        prepared = self._fixed or self._prepare(counter)
        chosen = self._kept.get(id(rows)) if self._fixed else None
        if chosen is None:
            chosen = self._choose(prepared, rows)
            if keep and self._fixed:
                self._kept[id(rows)] = chosen
        inputs, members, edge_counts = chosen
        h = dense(self.embedding(inputs, counter, generator))
        if members is None:
            return h
        pooled = _pool_max(members, h) if self.pooling == "max" else members @ h
        if edge_counts is not None and inputs.messages is None:
            e = self.embedding.edges(self.structure)
            assert e is not None
            pooled = pooled + edge_counts @ e
        return pooled

    def forget(self) -> None:
        self._kept.clear()

    def work(self, rows: Tensor) -> int:
        """Multiply-adds of a pass, roughly."""
        inputs = (self._fixed or self._prepare(0))[0].rows
        entries = inputs.nnz if isinstance(inputs, SparseMatrix) else inputs.numel()
        share = len(rows) / max(1, inputs.shape[0]) if self.structure.ptr is None else 1.0
        return int(entries * share) * self.embedding.out_channels

    def _prepare(self, counter: int) -> "tuple[Inputs, sp.csr_matrix | None, sp.csr_matrix | None]":
        inputs = self.embedding.inputs(self.x, self.structure, counter)
        if self.structure.ptr is None:
            return inputs, None, None
        how = "sum" if self.pooling == "max" else self.pooling
        pool = self.structure.pooling(how).scipy()
        members, edge_counts = pool, None
        if inputs.index is not None:
            members = pool @ indicator(inputs.index, inputs.rows.shape[0])
        if self.structure.edges is not None and self.embedding.edge_encoder is not None:
            edge_counts = sp.csr_matrix(pool @ self.structure.edges.counts.scipy())
        return inputs, sp.csr_matrix(members), edge_counts

    def _choose(self, prepared: tuple, rows: Tensor) -> tuple[Inputs, SparseMatrix | None, SparseMatrix | None]:
        inputs, members, edge_counts = prepared
        if members is None:
            return inputs.choose(rows), None, None
        chosen, to = rows.cpu().numpy(), {"dtype": self.structure.operator.dtype, "device": rows.device}
        part = members[chosen]
        needed = np.unique(part.indices)
        counts = None if edge_counts is None else SparseMatrix(edge_counts[chosen], **to)
        return (
            inputs.choose(torch.from_numpy(needed.astype(np.int64)).to(rows.device)),
            SparseMatrix(part[:, needed], **to),
            counts,
        )


def _pool_max(members: SparseMatrix, h: Tensor) -> Tensor:
    rows = torch.repeat_interleave(torch.arange(members.shape[0], device=h.device), members.crow.diff())
    return group_max(h[members.col.long()], rows, members.shape[0])
