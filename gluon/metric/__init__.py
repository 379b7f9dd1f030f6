"""Metrics of how well a network does: `mx.gluon.metric` (`mx.metric` in MXNet 1)."""

from mxjax.display.wording import told as _told
from mxjax.display.wording import worded as _worded
from mxjax.errors import explain_names as _explain_names

from .base import (
    Caffe,
    CompositeEvalMetric,
    CustomMetric,
    EvalMetric,
    Loss,
    Torch,
    alias,
    check_label_shapes,
    create,
    np,
    register,
)
from .classification import (
    F1,
    MCC,
    PCC,
    Accuracy,
    BinaryAccuracy,
    CrossEntropy,
    Fbeta,
    NegativeLogLikelihood,
    Perplexity,
    TopKAccuracy,
    one_hot,
    predict_with_threshold,
)
from .regression import (
    MAE,
    MSE,
    RMSE,
    MeanCosineSimilarity,
    MeanPairwiseDistance,
    PearsonCorrelation,
)

__all__ = [
    "F1",
    "MAE",
    "MCC",
    "MSE",
    "PCC",
    "RMSE",
    "Accuracy",
    "BinaryAccuracy",
    "Caffe",
    "CompositeEvalMetric",
    "CrossEntropy",
    "CustomMetric",
    "EvalMetric",
    "Fbeta",
    "Loss",
    "MeanCosineSimilarity",
    "MeanPairwiseDistance",
    "NegativeLogLikelihood",
    "PearsonCorrelation",
    "Perplexity",
    "TopKAccuracy",
    "Torch",
    "alias",
    "check_label_shapes",
    "create",
    "np",
    "one_hot",
    "predict_with_threshold",
    "register",
]

for _metric in (Accuracy, BinaryAccuracy, TopKAccuracy):
    _worded("metric")(_metric)
_told(one_hot, predict_with_threshold)
_explain_names(__name__)
