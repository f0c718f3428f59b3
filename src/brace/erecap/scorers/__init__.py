"""Ways to score tokens, one method a file. Importing this registers them."""

from brace.erecap.scorers.attention import Attention
from brace.erecap.scorers.base import ScoreInput, Scorer
from brace.erecap.scorers.grad_hidden import GradHidden
from brace.erecap.scorers.head_tail import HeadTail
from brace.erecap.scorers.hidden_norm import HiddenNorm
from brace.erecap.scorers.predictor import Predictor
from brace.erecap.scorers.random import Random
from brace.erecap.scorers.recency import Recency

__all__ = [
    "Attention",
    "GradHidden",
    "HeadTail",
    "HiddenNorm",
    "Predictor",
    "Random",
    "Recency",
    "ScoreInput",
    "Scorer",
]
