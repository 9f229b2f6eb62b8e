"""The thirteen questions with their fixed explanations; figures.py adds what the run shows."""
from __future__ import annotations

from typing import Callable, NamedTuple, Optional

from tessera_report.html.quantity import Html
from tessera_report.html.study import Study

from . import figures


class Question(NamedTuple):
    """A question, its explanation, and the sentence with the run's figures (None where no row shows it)."""

    question: str
    explanation: str
    figure: Callable[[Study], Optional[Html]]


QUESTIONS = [
    Question(
        "What does training keep in memory?",
        "Parameters, their gradients and the optimizer's state (AdamW: two moments), which do not depend on the batch; activations, which "
        "do; and for a while the full parameters of units that are gathered. In fp32 a parameter costs 4 bytes, its gradient 4, its moments 8.",
        figures.breakdown),
    Question(
        "Where does the factor W go?",
        "Sharding divides parameters, gradients and moments by W. Activations stay: every rank computes its own micro-batch. Gathered units stay "
        "too: a unit has to be full while it is computed with. So the total falls by less than W.", figures.factor),
    Question(
        "What does reshard_after_forward trade?",
        "Dropping a unit after forward frees its full parameters, and costs a second all-gather in backward. Keeping it saves that traffic, and "
        "all units are full at the end of forward.", figures.reshard),
    Question(
        "What is sharded and what is replicated?",
        "Under zero3 parameters, gradients and moments exist once over all ranks. Replicated are only what is gathered for a moment, and scalars: "
        "the loss, the norm, the step. Activations are neither: they belong to different samples.",
        figures.sharded_share),
    Question(
        "Why gather in forward and again in backward?",
        "Data parallel: each rank computes the whole layer on its own samples, and has 1/W of its weights. So forward gathers them. Backward of "
        "a layer needs them too, to pass the gradient on; after forward the rank has only its shard again, so they are gathered a second time. "
        "The schedule leaves out what it can: the last unit of forward is the first of backward.",
        figures.gathers),
    Question(
        "Why reduce-scatter and not all-reduce?",
        "A rank updates its shard only, so it needs the sum of N/W gradients and not of N. A ring's all-reduce is a reduce-scatter and an all-gather, "
        "and each sends (W−1)/W of N elements: reduce-scatter alone sends half.", figures.reduce_scatter),
    Question(
        "How much does zero3 send?",
        "Forward gathers P elements, backward gathers P again, and gradients of P elements are reduced. A ring of W ranks sends (W−1)/W of each. With K "
        "micro-steps that is K·(2·b_p + b_r)·P·(W−1)/W bytes.", figures.volume),
    Question(
        "Why prefetch?",
        "Without it compute waits for every all-gather. With it the next unit is gathered while this one is computed. What is left is the last "
        "reduction, the norm, and what compute is too short to cover.", figures.prefetch),
    Question(
        "What does prefetch cost in memory?",
        "The units ahead are full at the same time as the one in use: one unit more for each unit of depth, up to the limit of gathered units.",
        figures.prefetch_memory),
    Question(
        "When does prefetch not help?",
        "When there is nothing to hide, because gathers are quick against compute; when gathers take longer than the compute they hide behind; and "
        "when communication and compute share the same cores.", figures.prefetch_in_vain),
    Question(
        "Why are parameters flat?",
        "A collective has a fixed cost for each call. A unit's tensors lie end to end in one vector, so one call gathers all of them, without "
        "copies, and the vector splits evenly with a little padding.", figures.flat),
    Question(
        "How large should a unit be?",
        "Large enough that latency does not count, small enough that two of them fit and that gathers overlap with compute. A unit of the whole model "
        "hides nothing, and all parameters are full while it computes; only state at rest (12 of 16 bytes) is still divided.", figures.unit_size),
    Question(
        "What happens to tied weights?",
        "The embedding's table is also the head's. It is one tensor with two contributions to its gradient, so it is a unit of its own. Its gradient "
        "is reduced after the embedding's backward, the last of a micro-step, and the update sees the sum.",
        figures.tied),
]
