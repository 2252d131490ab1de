"""Estimates of mutual information from data.

How much does X tell about Y? :func:`mutual_information` takes arrays and tables and returns an
estimate with an interval, a test of independence and a verdict on its reliability:

>>> import fdime
>>> scenario = fdime.Scenario("gaussian", dim=2, level=1.0)
>>> x, y = scenario.sample(2000, seed=1)
>>> result = fdime.mutual_information(x, y, effort="quick")
>>> low, high = result.interval
>>> low < 1.0 < high
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._blocks import (
    ConditionalTask,
    Divergence,
    FdimeWarning,
    Objective,
    Scenario,
    benchmark,
    conditional_benchmark,
    names,
)
from ._capacity import ChannelCapacity, channel_capacity
from ._estimate import estimate_plan, mutual_info_features, mutual_information
from ._lag import LagProfile, LagProfiles, lagged_information, lagged_information_pairs
from ._matrix import Matrix, mutual_information_matrix
from ._native import __version__
from ._power import PowerAnalysis, StudySize, power_analysis
from ._result import Chain, ChainTerm, Critics, Estimate, Fold, Given, Reason, Verdict
from ._select import SelectedFeature, Selection, select_features
from ._staircase import Staircase, staircase, staircase_plan
from ._transfer import (
    TransferDirection,
    TransferEntropy,
    TransferNetwork,
    transfer_entropy,
    transfer_network,
)

if TYPE_CHECKING:
    from .sklearn import MutualInformation, MutualInformationSelector

__all__ = [
    "Chain",
    "ChainTerm",
    "ChannelCapacity",
    "ConditionalTask",
    "Critics",
    "Divergence",
    "Estimate",
    "FdimeWarning",
    "Fold",
    "Given",
    "LagProfile",
    "LagProfiles",
    "Matrix",
    "MutualInformation",
    "MutualInformationSelector",
    "Objective",
    "PowerAnalysis",
    "Reason",
    "Scenario",
    "SelectedFeature",
    "Selection",
    "Staircase",
    "StudySize",
    "TransferDirection",
    "TransferEntropy",
    "TransferNetwork",
    "Verdict",
    "__version__",
    "benchmark",
    "channel_capacity",
    "conditional_benchmark",
    "estimate_plan",
    "lagged_information",
    "lagged_information_pairs",
    "mutual_info_features",
    "mutual_information",
    "mutual_information_matrix",
    "names",
    "power_analysis",
    "select_features",
    "staircase",
    "staircase_plan",
    "transfer_entropy",
    "transfer_network",
]


def __getattr__(name: str) -> Any:
    # Importing scikit-learn takes a second, so it is imported when it is first needed.
    if name in ("MutualInformation", "MutualInformationSelector"):
        from . import sklearn

        return getattr(sklearn, name)
    raise AttributeError(f"module 'fdime' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
